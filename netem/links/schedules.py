"""Makes outage schedules of moving clients. Pure: every random number derives from a seed. Knows no profile."""

import random
from collections.abc import Callable

from netem.links.outages import Outages

_MS_PER_S = 1000.0
_HANDOVER_PERIOD_S = 600.0
# About 500 m of cell at 100 km/h.
_BETWEEN_HANDOVERS_S = (10.0, 26.0)
# Bends the uniform draw so that LTE's median of 40 ms lies in its range of 30 to 80 ms.
_LTE_BEND = 2.32


def lte_handovers(seed: int) -> Outages:
    """Gaps of 30 to 80 ms, half of them below 40 ms, about every 18 s."""
    draws = random.Random(f"{seed}/lte handovers")
    return _handovers(draws, lambda: 30 + 50 * draws.random() ** _LTE_BEND)


def nr_handovers(seed: int) -> Outages:
    """Gaps of 50 to 150 ms as in 5G (New Radio), about every 18 s."""
    draws = random.Random(f"{seed}/nr handovers")
    return _handovers(draws, lambda: draws.uniform(50, 150))


def tunnel(first_s: float, lasts_s: float, every_s: float) -> Outages:
    """One long gap, repeated every `every_s` seconds."""
    return Outages(((first_s, first_s + lasts_s),), every_s)


def _handovers(draws: random.Random, gap_ms: Callable[[], float]) -> Outages:
    gaps = []
    at_s = draws.uniform(*_BETWEEN_HANDOVERS_S)
    while at_s < _HANDOVER_PERIOD_S - 1:
        end_s = at_s + gap_ms() / _MS_PER_S
        gaps.append((at_s, end_s))
        at_s = end_s + draws.uniform(*_BETWEEN_HANDOVERS_S)
    return Outages(tuple(gaps), _HANDOVER_PERIOD_S)
