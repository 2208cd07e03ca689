"""netem.links.outages: when a link carries, and how long work takes around the gaps."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.errors import MisuseError
from netem.links.outages import NEVER, Outages
from netem.links.schedules import lte_handovers

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


@pytest.mark.parametrize(
    ("outages", "at_s", "begins_s"),
    [
        (NEVER, 0.0, math.inf),
        (LISTED, 0.0, 1.0),
        (LISTED, 1.0, 5.0),
        (LISTED, 1.5, 5.0),
        (LISTED, 5.1, math.inf),
        (PERIODIC, 0.5, 3.0),
        # One gap ends where the period does, the next begins there.
        (PERIODIC, 3.0, 4.0),
        (PERIODIC, 4001.0, 4003.0),
    ],
)
def test_the_next_outage_is_the_first_that_has_not_begun(outages: Outages, at_s: float, begins_s: float) -> None:
    assert outages.next_start_s(at_s) == pytest.approx(begins_s)


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


def test_a_gaps_start_that_rounds_to_before_the_gap_does_not_hold_the_work_forever() -> None:
    """Half of this schedule's gaps begin at a moment that, taken back into the period, lies before the gap."""
    outages = lte_handovers(seed=0)
    period_s = outages.period_s
    assert period_s is not None
    for rounds in range(30):
        for start_s, end_s in outages.gaps:
            halted_s = rounds * period_s + start_s
            begun_s = halted_s - 0.004
            assert outages.finish_s(begun_s, 0.01) == pytest.approx(rounds * period_s + end_s + 0.006)
            assert outages.resume_s(halted_s) == rounds * period_s + end_s


def test_gaps_that_touch_over_the_periods_end_are_one() -> None:
    outages = Outages(((0.0, 0.1), (0.2, 0.3)), period_s=0.3)
    for rounds in range(1, 1000):
        assert outages.finish_s(rounds * 0.3 - 0.15, 0.1) == pytest.approx(rounds * 0.3 + 0.15)


def carried_s(outages: Outages, from_s: float, to_s: float) -> float:
    """What the schedule leaves between two moments, counted gap by gap."""
    assert outages.period_s is not None
    lost_s = 0.0
    for rounds in range(math.floor(from_s / outages.period_s) - 1, math.floor(to_s / outages.period_s) + 2):
        for start_s, end_s in outages.gaps:
            begin_s = rounds * outages.period_s
            lost_s += max(0.0, min(to_s, begin_s + end_s) - max(from_s, begin_s + start_s))
    return to_s - from_s - lost_s


@st.composite
def schedules(draw: st.DrawFn) -> Outages:
    """Gaps at odd moments, at times from the first moment of the period or to its last."""
    lengths_s = draw(st.lists(st.floats(0.001, 1.7), min_size=2, max_size=9))
    bounds_s = [draw(st.sampled_from([0.0, lengths_s[0]]))]
    for length_s in lengths_s[1:]:
        bounds_s.append(bounds_s[-1] + length_s)
    gaps = tuple(zip(bounds_s[::2], bounds_s[1::2], strict=False))
    spare_s = draw(st.floats(0.001, 3.0))
    touches = bounds_s[0] > 0 and draw(st.booleans())
    return Outages(gaps, gaps[-1][1] if touches else gaps[-1][1] + spare_s)


@given(schedule=schedules(), rounds=st.integers(0, 200), place=st.floats(0, 1), works=st.lists(st.floats(0, 5)))
def test_work_ends_later_the_more_it_is_and_what_was_carried_is_the_work(
    schedule: Outages, rounds: int, place: float, works: list[float]
) -> None:
    assert schedule.period_s is not None
    begin_s = rounds * schedule.period_s
    starts_s = [begin_s + start_s for start_s, _ in schedule.gaps]
    for start_s in (begin_s + place * schedule.period_s, *starts_s, *(math.nextafter(at, 0) for at in starts_s)):
        finished_s = [schedule.finish_s(start_s, work_s) for work_s in sorted(works)]
        assert finished_s == sorted(finished_s)
        for work_s, end_s in zip(sorted(works), finished_s, strict=True):
            assert end_s >= start_s
            assert carried_s(schedule, start_s, end_s) == pytest.approx(work_s, abs=1e-6)


@given(schedule=schedules(), moments=st.lists(st.floats(0, 2000), min_size=2), work_s=st.floats(0, 5))
def test_what_begins_later_does_not_end_earlier(schedule: Outages, moments: list[float], work_s: float) -> None:
    finished_s = [schedule.finish_s(at_s, work_s) for at_s in sorted(moments)]
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(finished_s))


@given(schedule=schedules(), at_s=st.floats(0, 2000))
def test_where_a_link_has_resumed_it_carries(schedule: Outages, at_s: float) -> None:
    resumed_s = schedule.resume_s(at_s)
    assert resumed_s >= at_s
    assert schedule.resume_s(resumed_s) == resumed_s
    assert carried_s(schedule, at_s, resumed_s) == pytest.approx(0, abs=1e-6)
