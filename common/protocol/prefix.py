"""The common prefix of two sequences. Nothing else may live here."""

from collections.abc import Sequence


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """The number of leading tokens that both sequences share."""
    length, compared = 0, min(len(left), len(right))
    if tuple(left[:compared]) == tuple(right[:compared]):  # as in most calls, and many times as fast
        return compared
    for ours, theirs in zip(left, right, strict=False):
        if ours != theirs:
            break
        length += 1
    return length
