"""Received draft state by position."""

import torch

from common.drafters.drafter import NOTHING
from common.drafters.received import ReceivedKeyValues


def put(received: ReceivedKeyValues, start: int, count: int) -> None:
    rows = torch.arange(start, start + count, dtype=torch.float32)[None, :, None]
    received.put(start, rows, -rows)


def test_the_newest_position_follows_what_comes_and_what_is_rewritten() -> None:
    received = ReceivedKeyValues(1, 1, 32, torch.empty(0))
    assert received.newest == NOTHING
    put(received, 4, 3)
    put(received, 0, 2)
    assert received.newest == 6
    received.forget(5)
    assert (received.newest, len(received)) == (4, 3)
    assert sorted(received.keys_values()[0].flatten().tolist()) == [0, 1, 4]
    received.forget(0)
    assert (received.newest, len(received)) == (NOTHING, 0)
    put(received, 2, 1)
    assert received.newest == 2
