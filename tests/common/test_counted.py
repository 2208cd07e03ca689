"""How a number of things is written."""

from common.counted import counted


def test_one_is_singular() -> None:
    assert [counted(count, "token") for count in (0, 1, 2, 2000)] == ["0 tokens", "1 token", "2 tokens", "2,000 tokens"]
    assert [counted(count, "process") for count in (1, 2)] == ["1 process", "2 processes"]
