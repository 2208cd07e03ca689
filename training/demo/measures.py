"""Pure measures over token ids: loops.

What may live here: arithmetic on sequences of integers. It may not know models or text.
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
