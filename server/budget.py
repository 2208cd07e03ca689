"""Which nodes a pass is worth widening for, over all sessions together. Pure arithmetic.

It may not know sessions, trees or time: only chances that nodes are committed, and what passes cost.
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

Cost = Callable[[int], float]
"""Seconds of a pass over so many tokens."""

_STEP = 8  # nodes between two sizes that are weighed
_TINY = 1e-9  # seconds


def worthwhile(chances: Sequence[Sequence[float]], roots: int, other_tokens: int, most: int, cost: Cost) -> list[int]:
    """How many of each session's nodes to take, so that the pass commits most tokens in its time.

    `chances`: for each session, how likely each of its nodes is committed, likeliest first. The pass also has `roots`
    of sessions that decode, each good for one token, and `other_tokens`; `most` nodes fit. A chance is a client's
    word, so that no session gets more than twice its even share while others want theirs.
    """
    cap = math.ceil(2 * most / max(1, len(chances)))
    ranked = sorted(
        ((chance, session) for session, own in enumerate(chances) for chance in own[:cap]), key=lambda each: -each[0]
    )[:most]
    gains = list(accumulate((chance for chance, _ in ranked), initial=float(roots)))
    sizes = [*range(0, len(ranked), _STEP), len(ranked)]
    taken = max(sizes, key=lambda size: (gains[size] / max(cost(roots + other_tokens + size), _TINY), size))
    counts = [0] * len(chances)
    for _, session in ranked[:taken]:
        counts[session] += 1
    return counts
