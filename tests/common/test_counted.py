"""How a number of things and a size in bytes are written."""

import pytest

from common.counted import counted, format_bytes


def test_one_is_singular() -> None:
    assert [counted(count, "token") for count in (0, 1, 2, 2000)] == ["0 tokens", "1 token", "2 tokens", "2,000 tokens"]
    assert [counted(count, "process") for count in (1, 2)] == ["1 process", "2 processes"]


@pytest.mark.parametrize(
    ("size", "told"),
    [(0, "0 bytes"), (99, "99 bytes"), (1_500, "1.5 kB"), (99_000, "99.0 kB"), (2.5e6, "2.5 MB"), (1.25e9, "1.2 GB")],
)
def test_an_amount_is_told_in_a_unit_in_which_it_is_not_nothing(size: float, told: str) -> None:
    assert format_bytes(size) == told
