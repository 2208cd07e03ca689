"""Free memory, and running out of it, which is recognised whoever reports it and however it is wrapped."""

from pathlib import Path

import pytest
import torch

from common import memory
from common.memory import free_memory_bytes, is_out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_it_is_seen_behind_other_errors(error):
    assert is_out_of_memory(error)
    told = ValueError("it cannot be loaded")
    told.__cause__ = error
    assert is_out_of_memory(told)


def test_another_failure_is_none():
    assert not is_out_of_memory(ValueError("odd"))
    assert not is_out_of_memory(KeyboardInterrupt())


def test_torch_says_what_is_looked_for():
    with pytest.raises(RuntimeError) as refused:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(refused.value)


def test_memory_that_files_occupy_for_now_counts_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a machine that has read a large file would seem full."""
    (tmp_path / "meminfo").write_text("MemTotal: 3000 kB\nMemFree: 1000 kB\nMemAvailable: 2000 kB\n")
    monkeypatch.setattr(memory, "_MEMORY", tmp_path / "meminfo")
    assert free_memory_bytes("cpu") == 2000 * 1024
