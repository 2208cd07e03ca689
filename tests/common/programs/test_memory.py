"""common.programs.memory: running out of memory is recognised, whoever reports it and however it is wrapped."""

import pytest
import torch

from common.programs.memory import is_out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
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
