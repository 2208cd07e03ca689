"""The measured times of passes and levels, for each of the sessions that share them."""

import math

import pytest

from common.protocol.pass_timings import PassTimings


def test_before_a_level_is_known_any_number_fits_a_pass():
    pass_timings = PassTimings()
    assert pass_timings.levels_per_pass == math.inf
    pass_timings.pass_ended(0.03)
    assert pass_timings.levels_per_pass == math.inf
    assert pass_timings.level_s == 0.0


def test_levels_are_counted_in_the_time_of_a_pass():
    pass_timings = PassTimings()
    for _ in range(5):
        pass_timings.pass_ended(0.03)
        pass_timings.level_drafted(0.005)
    assert pass_timings.levels_per_pass == pytest.approx(6)


def test_rivals_share_the_drafter_and_leave_it_to_each_other_again():
    pass_timings = PassTimings()
    pass_timings.pass_ended(0.03)
    pass_timings.level_drafted(0.005)
    pass_timings.sessions_drafted_for = 4
    assert (pass_timings.level_s, pass_timings.levels_per_pass) == (pytest.approx(0.02), pytest.approx(1.5))
    pass_timings.sessions_drafted_for = 1
    assert pass_timings.levels_per_pass == pytest.approx(6)


def test_a_server_that_no_longer_drafts_comes_to_try_again():
    """What kept it from drafting may be gone, and only another level can tell."""
    pass_timings = PassTimings()
    pass_timings.level_drafted(1.0)
    pass_timings.pass_ended(0.03)
    for _ in range(50):
        pass_timings.level_drafted(1.0)
        pass_timings.pass_ended(0.03)
    assert pass_timings.levels_per_pass < 0.1, "as long as it drafts, levels take what they take"
    for _ in range(1000):
        pass_timings.pass_ended(0.03)
    assert pass_timings.levels_per_pass > 1


def test_a_level_that_is_under_way_for_many_passes_does_not_look_faster_for_it():
    pass_timings = PassTimings()
    pass_timings.level_drafted(1.0)
    pass_timings.pass_ended(0.03)
    pass_timings.is_drafting = True
    for _ in range(100):
        pass_timings.pass_ended(0.03)
    assert pass_timings.level_s == 1.0
    pass_timings.is_drafting = False
    pass_timings.pass_ended(0.03)
    assert pass_timings.level_s < 1.0


def test_where_all_levels_are_first_ones_they_tell_what_a_level_takes_at_most():
    """Answers may be shorter than a second. The very first level is not counted: it may have loaded the draft."""
    pass_timings = PassTimings()
    pass_timings.pass_ended(0.03)
    pass_timings.first_level_drafted(100.0)
    assert pass_timings.levels_per_pass == math.inf
    pass_timings.first_level_drafted(0.06)
    assert pass_timings.levels_per_pass == pytest.approx(0.5)
    pass_timings.level_drafted(0.01)
    pass_timings.first_level_drafted(0.06)
    assert pass_timings.levels_per_pass == pytest.approx(3)


def test_a_server_that_stopped_after_first_levels_comes_to_try_again():
    pass_timings = PassTimings()
    for seconds in (100.0, 1.0):
        pass_timings.pass_ended(0.03)
        pass_timings.first_level_drafted(seconds)
    for _ in range(1000):
        pass_timings.pass_ended(0.03)
    assert pass_timings.levels_per_pass > 1


def test_one_odd_time_moves_little_and_a_lasting_one_all():
    pass_timings = PassTimings()
    pass_timings.level_drafted(0.01)
    pass_timings.level_drafted(0.09)
    assert pass_timings.level_s == pytest.approx(0.02)
    for _ in range(100):
        pass_timings.level_drafted(0.09)
    assert pass_timings.level_s == pytest.approx(0.09, rel=1e-3)


def test_a_first_level_tells_that_levels_take_as_long_as_before():
    """Where drafters are taken from one another all levels are first ones."""
    pass_timings = PassTimings()
    for _ in range(2):
        pass_timings.first_level_drafted(0.06)
    pass_timings.level_drafted(0.05)
    for _ in range(50):
        pass_timings.pass_ended(0.03)
    assert pass_timings.level_s < 0.025
    pass_timings.first_level_drafted(0.06)
    assert pass_timings.level_s == pytest.approx(0.05)


def test_what_has_worn_off_counts_for_less_than_a_new_level():
    fresh, worn = PassTimings(), PassTimings()
    for pass_timings in (fresh, worn):
        pass_timings.level_drafted(1.0)
    for _ in range(200):
        worn.pass_ended(0.03)
    for pass_timings in (fresh, worn):
        pass_timings.level_drafted(0.1)
    assert fresh.level_s > 0.8
    assert worn.level_s == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize(
    ("seconds", "sessions", "has"),
    [
        (0.030, 1, True),
        (0.031, 1, False),
        (0.030, 2, True),
        (0.031, 2, False),
        (0.005, 12, True),
        (0.005, 13, False),
    ],
)
def test_a_session_needs_a_level_in_its_turn_and_half_a_one_for_each_session(seconds, sessions, has):
    pass_timings = PassTimings()
    pass_timings.pass_ended(0.03)
    pass_timings.level_drafted(seconds)
    pass_timings.sessions_drafted_for = sessions
    assert pass_timings.has_levels(1.0) is has
    assert pass_timings.has_levels(0.0)
