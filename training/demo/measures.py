"""Pure measures over token ids: loops, agreement and accept length.

What may live here: arithmetic on sequences of integers and booleans. It may not know models or text.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_PERIOD = 40
SHORTEST_LOOP = 24
REPEATS = 3


def loops(ids: Sequence[int]) -> bool:
    """True if some stretch repeats itself: it equals its own shift by a period of at most `LONGEST_PERIOD` tokens
    over `REPEATS` periods and at least `SHORTEST_LOOP` tokens."""
    for period in range(1, LONGEST_PERIOD + 1):
        needed = max(REPEATS * period, SHORTEST_LOOP)
        run = 0
        for index in range(period, len(ids)):
            run = run + 1 if ids[index] == ids[index - period] else 0
            if run >= needed:
                return True
    return False


def accept_length(agreed: Sequence[bool], ahead: int) -> float:
    """Tokens per target pass when a draft proposes `ahead` tokens each time and the target adds one of its own.

    `agreed[i]` says whether the draft's greedy token at place i equals the target's; 0.0 for an empty sequence.
    """
    place = passes = 0
    while place < len(agreed):
        accepted = 0
        while accepted < ahead and place + accepted < len(agreed) and agreed[place + accepted]:
            accepted += 1
        place += accepted + 1
        passes += 1
    return len(agreed) / passes if passes else 0.0
