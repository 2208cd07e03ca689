"""How clients that come and go over a day spread over replicas: what each replica has to answer at once.

Pure and seeded. It may not know models, links or systems, but how fast a replica answers so many at once.
"""

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

HOURS = (
    *(0.35, 0.25, 0.20, 0.18, 0.18, 0.22, 0.32, 0.50, 0.75, 0.92, 1.00, 0.98),
    *(0.90, 0.93, 0.98, 0.97, 0.93, 0.85, 0.78, 0.74, 0.70, 0.65, 0.55, 0.45),
)
"""A day of office users, stated and not measured: the share of all clients that are there in each hour."""


@dataclass(frozen=True, slots=True)
class Habits:
    """A client that is there asks, reads for `pause_s` in the mean when its answer of `answer_tokens` has ended, and
    asks again."""

    pause_s: float
    answer_tokens: int


def answered_at_once(clients: float, speed: Callable[[float], float], habits: Habits) -> float:
    """How many of a replica's clients are being answered at a time, where `speed` of one falls with their number: the
    fixed point, by bisection. Tokens per second."""
    low, high = 0.0, float(clients)
    for _ in range(60):
        middle = (low + high) / 2
        answer_s = habits.answer_tokens / max(speed(middle), 1e-9)
        if clients * answer_s / (answer_s + habits.pause_s) > middle:
            low = middle
        else:
            high = middle
    return high


def fullest(answers: float, replicas: int, seed: int) -> int:
    """The most answers at once of any replica, where each new one takes the less loaded of two drawn replicas
    (Mitzenmacher 2001) and as many end as begin; the mean over a while of the fullest one, rounded up."""
    total, draws = math.ceil(answers * replicas), random.Random(seed)
    load = [0] * replicas
    where: list[int] = []

    def assign() -> None:
        a, b = draws.randrange(replicas), draws.randrange(replicas)
        where.append(a if load[a] <= load[b] else b)
        load[where[-1]] += 1

    for _ in range(total):
        assign()
    turns, most = 4 * total, 0
    for _ in range(turns):
        index = draws.randrange(total)
        load[where[index]] -= 1
        where[index] = where[-1]
        where.pop()
        assign()
        most += max(load)
    return math.ceil(most / turns) if turns else 0


def between(known: Mapping[int, float], at: float) -> float | None:
    """The value at `at`, linear between known ones; the first below them, and None above, which nobody has measured."""
    counts: Sequence[int] = sorted(known)
    above = bisect_left(counts, at)
    if above == len(counts):
        return None
    if above == 0 or counts[above] == at:
        return known[counts[above]]
    left, right = counts[above - 1], counts[above]
    return known[left] + (at - left) / (right - left) * (known[right] - known[left])
