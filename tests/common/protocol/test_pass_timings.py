"""How long passes and levels take, for each of the sessions that share them."""

import math

import pytest

from common.protocol.pass_timings import Pulse


def test_before_a_level_is_known_any_number_fits_a_pass():
    pulse = Pulse()
    assert pulse.levels_per_pass == math.inf
    pulse.passed(0.03)
    assert pulse.levels_per_pass == math.inf
    assert pulse.level_seconds == 0.0


def test_levels_are_counted_in_the_time_of_a_pass():
    pulse = Pulse()
    for _ in range(5):
        pulse.passed(0.03)
        pulse.drafted(0.005)
    assert pulse.levels_per_pass == pytest.approx(6)


def test_rivals_share_the_drafter_and_leave_it_to_each_other_again():
    pulse = Pulse()
    pulse.passed(0.03)
    pulse.drafted(0.005)
    pulse.rivals = 4
    assert (pulse.level_seconds, pulse.levels_per_pass) == (pytest.approx(0.02), pytest.approx(1.5))
    pulse.rivals = 1
    assert pulse.levels_per_pass == pytest.approx(6)


def test_a_server_that_no_longer_drafts_comes_to_try_again():
    """What kept it from drafting may be gone, and only a level would tell."""
    pulse = Pulse()
    pulse.drafted(1.0)
    pulse.passed(0.03)
    for _ in range(50):
        pulse.drafted(1.0)
        pulse.passed(0.03)
    assert pulse.levels_per_pass < 0.1, "as long as it drafts, levels take what they take"
    for _ in range(1000):
        pulse.passed(0.03)
    assert pulse.levels_per_pass > 1


def test_a_level_that_is_under_way_for_many_passes_does_not_look_faster_for_it():
    pulse = Pulse()
    pulse.drafted(1.0)
    pulse.passed(0.03)
    pulse.is_drafting = True
    for _ in range(100):
        pulse.passed(0.03)
    assert pulse.level_seconds == 1.0
    pulse.is_drafting = False
    pulse.passed(0.03)
    assert pulse.level_seconds < 1.0


def test_where_all_levels_are_first_ones_they_tell_what_a_level_takes_at_most():
    """Answers may be too short for a second. The very first level says nothing: it may have loaded the draft."""
    pulse = Pulse()
    pulse.passed(0.03)
    pulse.drafted_first(100.0)
    assert pulse.levels_per_pass == math.inf
    pulse.drafted_first(0.06)
    assert pulse.levels_per_pass == pytest.approx(0.5)
    pulse.drafted(0.01)
    pulse.drafted_first(0.06)
    assert pulse.levels_per_pass == pytest.approx(3)


def test_a_server_that_stopped_after_first_levels_comes_to_try_again():
    pulse = Pulse()
    for seconds in (100.0, 1.0):
        pulse.passed(0.03)
        pulse.drafted_first(seconds)
    for _ in range(1000):
        pulse.passed(0.03)
    assert pulse.levels_per_pass > 1


def test_one_odd_time_moves_little_and_a_lasting_one_all():
    pulse = Pulse()
    pulse.drafted(0.01)
    pulse.drafted(0.09)
    assert pulse.level_seconds == pytest.approx(0.02)
    for _ in range(100):
        pulse.drafted(0.09)
    assert pulse.level_seconds == pytest.approx(0.09, rel=1e-3)
