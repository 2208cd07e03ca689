"""Loop detection on hand-made sequences."""

from __future__ import annotations

import pytest

from training.demo.measures import loops


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
