"""The common prefix of two sequences. Nothing else may live here."""

from collections.abc import Sequence


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """The number of leading tokens that both sequences share."""
    length = 0
    for ours, theirs in zip(left, right, strict=False):
        if ours != theirs:
            break
        length += 1
    return length
