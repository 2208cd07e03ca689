"""Which nodes a pass is worth widening for, over all sessions together. Pure arithmetic.

It may not know sessions, trees or time: only chances that nodes are committed, and what passes cost.
"""

import math
from collections.abc import Callable, Sequence
from heapq import merge
from itertools import accumulate, islice, repeat

Cost = Callable[[int], float]
"""Seconds of a pass over so many tokens."""

_STEP = 8  # nodes between two sizes that are weighed
_TINY = 1e-9  # seconds


def worthwhile(chances: Sequence[Sequence[float]], roots: int, other_tokens: int, most: int, cost: Cost) -> list[int]:
    """How many of each session's nodes to take, so that the pass commits most tokens in its time.

    `chances`: for each session, how likely each of its nodes is committed, likeliest first. The pass also has `roots`
    of sessions that decode, each good for one token, and `other_tokens`; `most` nodes fit. A chance is a client's
    word, so that no session gets more than twice its even share while others want theirs: what is above waits for a
    second round, which has the room that is left when everybody's share is set aside, taken or not. Within its share
    a lie still raises the speed that others' nodes have to keep up with; what is above raises it for nobody.
    """
    # Of one more than there are, so that even of two neither takes all.
    cap = math.ceil(2 * most / (len(chances) + 1))
    shares = _ranked([own[:cap] for own in chances], most)
    above = _ranked([own[cap:] for own in chances], most - len(shares))
    counts = [0] * len(chances)
    gain, tokens = float(roots), roots + other_tokens
    for ranked in (shares, above):
        gains = list(accumulate((chance for chance, _ in ranked), initial=gain))
        taken = _widest(gains, tokens, cost)
        gain, tokens = gains[taken], tokens + taken
        for _, session in ranked[:taken]:
            counts[session] += 1
    return counts


def _ranked(chances: Sequence[Sequence[float]], most: int) -> list[tuple[float, int]]:
    """The likeliest nodes of all sessions, each with its session."""
    each_session = [zip(own, repeat(session)) for session, own in enumerate(chances)]
    return list(islice(merge(*each_session, key=lambda each: each[0], reverse=True), max(0, most)))


def _widest(gains: Sequence[float], tokens: int, cost: Cost) -> int:
    """The number of nodes on top of so many tokens that brings most a second, of several the largest; `gains` by it."""
    last = len(gains) - 1
    sizes = [*range(0, last, _STEP), last]
    widest: int = max(sizes, key=lambda size: (gains[size] / max(cost(tokens + size), _TINY), size))
    return widest
