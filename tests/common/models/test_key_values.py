import sys
from pathlib import Path

import pytest
import torch

from common.models.key_values import KeyValuePool, KeyValueShape, zeros_on_demand

CPU = torch.device("cpu")
MEGABYTE = 1 << 20


def resident_bytes() -> int:
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
def test_what_is_made_on_demand_is_zeros_that_can_be_written(dtype: torch.dtype) -> None:
    made = zeros_on_demand((5, 3), dtype, CPU)
    assert torch.equal(made, torch.zeros(5, 3, dtype=dtype))
    with torch.inference_mode():
        made.index_copy_(0, torch.tensor([4]), torch.ones(1, 3, dtype=dtype))
    assert made.sum() == made[4].sum() == 3


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's files about this process")
def test_memory_is_taken_where_it_is_written() -> None:
    before = resident_bytes()
    pool = KeyValuePool.allocate([KeyValueShape(8, 128, 128)] * 2, 32 * 1024, torch.float32, CPU, 64, on_demand=True)
    assert pool.nbytes == 512 * MEGABYTE
    assert resident_bytes() - before < 32 * MEGABYTE
    pool.keys_KSD[0][:, : 16 * 1024] = 1.0
    assert resident_bytes() - before > 60 * MEGABYTE


def test_layers_without_keys_have_room_for_none() -> None:
    shapes = [KeyValueShape(0, 0, 0), KeyValueShape(2, 4, 2)]
    pool = KeyValuePool.allocate(shapes, 10, torch.float32, CPU, 64, on_demand=True)
    assert [tuple(each.shape) for each in pool.keys_KSD] == [(0, 10, 0), (2, 10, 4)]
    assert tuple(pool.values_KSV[1].shape) == (2, 10, 2)
