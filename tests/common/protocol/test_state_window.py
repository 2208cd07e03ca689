"""The state window leaves capacity for tokens on every link, and still uses the link."""

import pytest

from common.protocol.state_window import FIRST_WINDOW_BYTES, MAX_WINDOW_BYTES, MIN_WINDOW_BYTES, StateWindow
from tests.common.protocol.state_link import Link, flood

MEGABIT = 125_000.0
RATES = [1, 5, 20, 100]
TRIPS = [0.02, 0.05, 0.1, 0.3, 0.6]


@pytest.mark.parametrize("trip", TRIPS)
@pytest.mark.parametrize("rate", RATES)
def test_a_commit_waits_less_than_half_a_round_trip_behind_state(rate, trip):
    measured = flood(Link(rate * MEGABIT, trip), StateWindow(), seconds=30, warm_up=6)
    assert measured.mean_delay < 0.5 * trip
    assert measured.delay(0.95) < 1.0 * trip


@pytest.mark.parametrize("trip", TRIPS)
@pytest.mark.parametrize("rate", RATES)
def test_state_uses_the_link_as_far_as_its_largest_window_reaches(rate, trip):
    link = Link(rate * MEGABIT, trip)
    measured = flood(link, StateWindow(), seconds=40, warm_up=15)
    assert measured.delivered > 0.7 * min(link.rate, MAX_WINDOW_BYTES / trip)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("jitter", [0.05, 0.15])
@pytest.mark.parametrize("trip", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("rate", RATES)
def test_jitter_is_not_taken_for_a_queue(rate, trip, jitter, seed):
    link = Link(rate * MEGABIT, trip, jitter * trip)
    measured = flood(link, StateWindow(), seconds=30, warm_up=10, seed=seed)
    assert measured.delivered > 0.4 * min(link.rate, MAX_WINDOW_BYTES / trip)
    assert measured.mean_delay < 1.5 * trip


@pytest.mark.parametrize("seed", range(4))
def test_a_phone_whose_round_trips_jitter_by_their_own_length_still_carries_state(seed):
    """21±19 ms each way at 20 Mbit/s. State of 1,000 tokens of the demo, 272 kB, in little more than half a second."""
    measured = flood(Link(20 * MEGABIT, 0.042, 0.019), StateWindow(), seconds=30, warm_up=5, seed=seed)
    assert measured.delivered > 400_000
    assert measured.mean_delay < 0.042


def test_a_link_that_becomes_slow_is_soon_relieved():
    window = StateWindow()
    flood(Link(20 * MEGABIT, 0.05), window, seconds=5, warm_up=0)
    assert window.size > 2 * FIRST_WINDOW_BYTES
    slow = flood(Link(1 * MEGABIT, 0.05), window, seconds=25, warm_up=12, began=20.0)
    assert slow.mean_delay < 0.5 * 0.05


def test_a_path_that_becomes_longer_is_learnt():
    window = StateWindow()
    flood(Link(20 * MEGABIT, 0.03), window, seconds=5, warm_up=0)
    longer = flood(Link(20 * MEGABIT, 0.12), window, seconds=60, warm_up=30, began=20.0)
    assert longer.delivered > 0.6 * 20 * MEGABIT


def test_the_window_stays_within_its_bounds():
    window = StateWindow()
    flood(Link(1000 * MEGABIT, 0.05), window, seconds=10, warm_up=0)
    assert window.size == MAX_WINDOW_BYTES
    window = StateWindow()
    flood(Link(0.02 * MEGABIT, 0.02), window, seconds=60, warm_up=0)
    assert MIN_WINDOW_BYTES <= window.size < 2 * MIN_WINDOW_BYTES


def test_a_window_that_is_not_used_does_not_grow():
    window, now = StateWindow(), 0.0
    for _ in range(100):
        window.sent(300, now)
        window.acknowledged(now + 0.05)
        now += 0.1
    assert window.size == FIRST_WINDOW_BYTES


def test_frames_that_a_turn_overtook_are_counted_but_not_timed():
    window, now = StateWindow(), 0.0
    for _ in range(10):
        window.sent(4096, now)
        window.acknowledged(now + 0.05)
        now += 0.1
    size = window.size
    for _ in range(4):
        window.sent(4096, now)
    window.overtake()
    for _ in range(4):
        window.acknowledged(now + 60)  # after a minute without a question
    assert window.size == size
    assert window.in_flight == 0
