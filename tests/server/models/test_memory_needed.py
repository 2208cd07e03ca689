"""A target whose weights cannot fit is refused before they are read, with the numbers."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from common.models.checkpoint import load_causal_lm, load_config
from common.models.errors import CheckpointError
from common.models.families import key_width, value_width
from common.models.packed import PackedModel
from common.models.source import CONFIG, weight_files
from common.weight_only.needs import read_file_header
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from server.models import memory_needed as module
from server.models.memory_needed import MemoryNeeded, check_memory, memory_needed, sum_needed
from server.models.target_loader import load_target
from tests.families import make_checkpoint
from tests.other_families import GEMMA_4
from tests.quantised import make_fp8, make_int4

KEY_VALUES = 3 * 2 * 16 * 4  # bytes of a token: layers, keys and values, width, float32


def test_the_weights_and_a_tokens_keys_and_values_are_counted(target: Path) -> None:
    headers = [read_file_header(file) for file in weight_files(target)]
    numbers = sum(math.prod(each.shape) for header in headers for each in header.values())
    needed = memory_needed(target, "cpu", "float32", 100, "")
    assert needed.key_values == 100 * KEY_VALUES
    assert needed.weights == numbers * 4
    assert memory_needed(target, "cpu", "bfloat16", 100, "").key_values == 50 * KEY_VALUES


def held_bytes(model: torch.nn.Module) -> int:
    """Of all weights, once each, with the scales that bitsandbytes keeps beside them."""
    weights = list(model.parameters())
    scales = [weight.SCB for weight in weights if getattr(weight, "SCB", None) is not None]
    scales += [weight.quant_state.absmax for weight in weights if hasattr(weight, "quant_state")]
    return sum(each.numel() * each.element_size() for each in (*weights, *scales))


@pytest.fixture(params=[("llama", False), ("qwen3", True)], ids=["untied", "tied"])
def wide(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A target whose embedding has as many weights as its layers."""
    family, tied = request.param
    return make_checkpoint(tmp_path / family, family, tied=tied, dtype=torch.bfloat16, hidden=384, layers=2, vocab=8000)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_stored_in_few_bits_counts_as_it_is_held(wide: Path, tmp_path: Path, dtype: str) -> None:
    stored = [make(tmp_path / make.__name__, wide) for make in (make_fp8, make_int4)]  # both are expanded on a CPU
    for bits in ("int8", "int4"):
        load_causal_lm(wide, "cpu", "bfloat16", bits).save_pretrained(tmp_path / bits)
        stored.append(tmp_path / bits)
    for target in stored:
        held = held_bytes(load_causal_lm(target, "cpu", dtype))
        assert memory_needed(target, "cpu", dtype, 1, "").weights == pytest.approx(held, rel=0.02), target.name


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("bits", ["int8", "int4"])
def test_of_a_target_that_is_quantised_here_embedding_and_head_count_in_full(wide: Path, dtype: str, bits: str) -> None:
    held = held_bytes(load_causal_lm(wide, "cpu", dtype, bits))
    assert memory_needed(wide, "cpu", dtype, 1, bits).weights == pytest.approx(held, rel=0.02)


def test_weights_count_in_the_dtype_in_which_they_are_stored_whatever_the_configuration_says(
    target: Path, tmp_path: Path
) -> None:
    silent = Path(shutil.copytree(target, tmp_path / "silent"))
    config = json.loads((silent / CONFIG).read_text())
    kept = {key: value for key, value in config.items() if key not in ("dtype", "torch_dtype")}
    (silent / CONFIG).write_text(json.dumps(kept))
    weights = [memory_needed(each, "cpu", "float32", 1, "").weights for each in (target, silent)]
    assert weights[0] == weights[1]


def test_values_of_another_width_than_keys_are_counted_as_they_are_kept(tmp_path: Path) -> None:
    latent = make_family_checkpoint(tmp_path / "latent", FAMILIES["deepseek-v3"])
    assert value_width(load_config(latent)) != key_width(load_config(latent))
    pool = PackedModel(load_causal_lm(latent), 50).pool
    assert memory_needed(latent, "cpu", "float32", pool.capacity, "").key_values == pool.nbytes


def test_keys_and_values_of_layers_that_differ_are_counted_layer_by_layer(tmp_path: Path) -> None:
    target = make_family_checkpoint(tmp_path, GEMMA_4)
    pool = load_target(str(target), device="cpu", dtype="float32", capacity=50, threads=0).model.pool
    assert len(pool.widths) > 1
    assert memory_needed(target, "cpu", "float32", pool.capacity, "").key_values == pool.nbytes


def test_weights_that_cannot_fit_are_refused_before_they_are_loaded(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "free_memory_bytes", lambda device: 200_000)
    with pytest.raises(CheckpointError, match=r"memory of cpu: about 0\.4 MB of weights and 2\.0 MB of K/V for 5,208"):
        load_target(str(target), device="cpu", dtype="float32", capacity=2_000_000 // KEY_VALUES, threads=0)
    monkeypatch.setattr(module, "free_memory_bytes", lambda device: 0)
    check_memory(target, "cpu", "float32", 10**9, "")


def test_a_format_that_weights_cannot_be_quantised_to_is_refused(target: Path) -> None:
    with pytest.raises(CheckpointError, match="weights cannot be quantised to 'int3'; choose from: int8, int4"):
        check_memory(target, "cpu", "float32", 100, "int3")


def test_keys_and_values_that_may_not_fit_are_a_warning(
    target: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "free_memory_bytes", lambda device: 2_000_000)
    tokens = 2_000_000 // KEY_VALUES
    check_memory(target, "cpu", "bfloat16", tokens // 4, "")
    assert not caplog.messages
    check_memory(target, "cpu", "float32", tokens, "")
    assert "may not fit into the memory of cpu: about 0.4 MB of weights and 2.0 MB of K/V" in caplog.text


def test_targets_of_one_device_add_up() -> None:
    one, two = MemoryNeeded(100, 20, 3, 5, 200), MemoryNeeded(60, 20, 0, 7, 200)
    assert one.fits
    assert two.fits
    assert sum_needed([one, two]) == MemoryNeeded(160, 40, 3, 12, 200)
    assert not sum_needed([one, two]).fits
