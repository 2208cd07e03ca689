"""netem.links.schedules: the published lengths of handover gaps."""

from collections.abc import Callable
from statistics import median

import pytest

from netem.links.outages import Outages
from netem.links.schedules import lte_handovers, nr_handovers, tunnel


def gaps_ms(make: Callable[[int], Outages]) -> list[float]:
    return [(end - start) * 1000 for seed in range(30) for start, end in make(seed).gaps]


@pytest.mark.parametrize(("make", "shortest", "longest"), [(lte_handovers, 30, 80), (nr_handovers, 50, 150)])
def test_gaps_fill_the_published_range(make: Callable[[int], Outages], shortest: float, longest: float) -> None:
    gaps = gaps_ms(make)
    assert shortest <= min(gaps) < shortest * 1.05
    assert longest * 0.95 < max(gaps) <= longest


def test_half_of_the_lte_gaps_are_shorter_than_40_ms() -> None:
    assert median(gaps_ms(lte_handovers)) == pytest.approx(40, rel=0.05)


def test_the_seed_decides_the_schedule() -> None:
    assert lte_handovers(3) == lte_handovers(3) != lte_handovers(4)


def test_a_tunnel_comes_again() -> None:
    outages = tunnel(first_s=40, lasts_s=30, every_s=120)
    assert [outages.resume_s(at) for at in (39, 41, 161, 190)] == [39, 70, 190, 190]
