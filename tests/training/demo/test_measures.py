"""Loop detection and accept length on hand-made sequences."""

from __future__ import annotations

import pytest

from training.demo.measures import accept_length, loops


@pytest.mark.parametrize(
    ("ids", "looping"),
    [
        (list(range(300)), False),
        ([5] * 24, False),
        ([5] * 25, True),
        ([1, 2, 3] * 9, True),
        ([1, 2, 3] * 3 + list(range(10, 60)), False),
        (list(range(30)) * 3, False),
        (list(range(30)) * 4, True),
        ([], False),
    ],
)
def test_loops(ids: list[int], looping: bool) -> None:
    assert loops(ids) is looping


def test_accept_length_counts_tokens_per_pass() -> None:
    assert accept_length([], 4) == 0.0
    assert accept_length([False] * 10, 4) == 1.0
    assert accept_length([True] * 10, 4) == 5.0
    assert accept_length([True, False, True, True], 4) == 2.0
