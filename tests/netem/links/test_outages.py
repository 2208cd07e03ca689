"""netem.links.outages: when a link carries, and how long work takes around the gaps."""

import math

import pytest

from common.protocol.errors import MisuseError
from netem.links.outages import NEVER, Outages

LISTED = Outages(((1.0, 2.0), (5.0, 5.5)))
PERIODIC = Outages(((0.0, 1.0), (3.0, 4.0)), period_s=4.0)


@pytest.mark.parametrize(
    ("outages", "at_s", "resumed_s"),
    [
        (NEVER, 7.0, 7.0),
        (LISTED, 0.999, 0.999),
        (LISTED, 1.0, 2.0),
        (LISTED, 1.7, 2.0),
        (LISTED, 2.0, 2.0),
        (LISTED, 5.2, 5.5),
        (LISTED, 100.0, 100.0),
        (PERIODIC, 0.0, 1.0),
        (PERIODIC, 2.0, 2.0),
        # One gap ends where the period does, the next begins there.
        (PERIODIC, 3.5, 5.0),
        (PERIODIC, 4003.5, 4005.0),
    ],
)
def test_the_link_resumes_at_the_end_of_a_gap(outages: Outages, at_s: float, resumed_s: float) -> None:
    assert outages.resume_s(at_s) == pytest.approx(resumed_s)


@pytest.mark.parametrize(
    ("outages", "start_s", "work_s", "finished_s"),
    [
        (NEVER, 3.0, 2.0, 5.0),
        (LISTED, 0.0, 0.5, 0.5),
        (LISTED, 0.0, 1.0, 1.0),
        (LISTED, 0.5, 1.0, 2.5),
        (LISTED, 1.5, 1.0, 3.0),
        (LISTED, 0.0, 10.0, 11.5),
        (LISTED, 1.5, 0.0, 2.0),
        (PERIODIC, 0.0, 5.0, 10.0),
    ],
)
def test_work_halts_in_gaps(outages: Outages, start_s: float, work_s: float, finished_s: float) -> None:
    assert outages.finish_s(start_s, work_s) == pytest.approx(finished_s)


def test_the_share_without_a_link() -> None:
    assert PERIODIC.off_share() == 0.5
    assert LISTED.off_share() == 0.0


@pytest.mark.parametrize(
    ("gaps", "period_s", "reason"),
    [
        (((2.0, 1.0),), None, "rising order"),
        (((0.0, 2.0), (1.0, 3.0)), None, "rising order"),
        (((3.0, 4.0), (1.0, 2.0)), None, "rising order"),
        (((-1.0, 2.0),), None, "from 0 on"),
        (((0.0, math.inf),), None, "rising order"),
        (((0.0, 2.0),), 1.0, "after the period"),
        (((0.0, 1.0),), 1.0, "fill their whole period"),
        (((0.0, 1.0),), 0.0, "cannot repeat"),
    ],
)
def test_impossible_schedules_are_refused(
    gaps: tuple[tuple[float, float], ...], period_s: float | None, reason: str
) -> None:
    with pytest.raises(MisuseError, match=reason):
        Outages(gaps, period_s)
