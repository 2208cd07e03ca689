"""A target that cannot fit is refused before its weights are read, with the numbers."""

from pathlib import Path

import pytest

from common.models.errors import CheckpointError
from common.programs.machine import free_memory_bytes
from server.models import memory_needed as module
from server.models.memory_needed import check_memory, memory_needed
from server.passes.target import load_target

KEY_VALUES = 3 * 2 * 16 * 4  # bytes of a token: layers, keys and values, width, float32


def test_the_weights_and_a_tokens_keys_and_values_are_counted(target: Path) -> None:
    stored = sum(file.stat().st_size for file in target.glob("*.safetensors"))  # in float64
    needed = memory_needed(target, "cpu", "float32", 100, "")
    assert needed.key_values == 100 * KEY_VALUES
    assert needed.weights == stored / 2
    assert memory_needed(target, "cpu", "bfloat16", 100, "").key_values == 50 * KEY_VALUES
    assert memory_needed(target, "cpu", "bfloat16", 100, "int8").weights == stored / 8


def test_what_cannot_fit_is_refused_before_it_is_loaded(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "free_memory_bytes", lambda device: 2_000_000)
    tokens = 2_000_000 // KEY_VALUES
    with pytest.raises(CheckpointError, match=r"memory of cpu: about 0\.4 MB of weights and 2\.0 MB of K/V for 5,208"):
        load_target(str(target), device="cpu", dtype="float32", capacity=tokens, threads=0)
    check_memory(target, "cpu", "bfloat16", tokens // 4, "")
    monkeypatch.setattr(module, "free_memory_bytes", lambda device: 0)
    check_memory(target, "cpu", "float32", tokens, "")


def test_memory_that_files_occupy_for_now_counts_as_free() -> None:
    """Without it, a machine that has read a large file would seem full."""
    told = Path("/proc/meminfo").read_text()
    total = int(told.split("MemTotal:")[1].split()[0]) * 1024
    free = int(told.split("MemFree:")[1].split()[0]) * 1024
    assert 0.9 * free < free_memory_bytes("cpu") < total
