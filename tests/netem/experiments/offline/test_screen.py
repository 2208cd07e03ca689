import pytest

from netem.experiments.offline.screen import LengthLimits, Outage, OutageObservation, ScreenState, watch_outage

END = 9
ANSWER = (1, 2, 3, 4, 5, END)
GONE = Outage(1.0, 3.0)


def watch(*states, bounds=LengthLimits(alone=99, answer=99)):  # noqa: B008
    return watch_outage([ScreenState(*each) for each in states], ANSWER, GONE, {END}, bounds)


def test_what_the_target_confirms_of_what_was_offered_survives():
    observed = watch((0, 0, ()), (0.9, 2, (3,)), (1.1, 2, (3, 4)), (1.2, 2, (3, 4, 8)), (3.25, 4, ()), (3.5, 5, ()))
    assert (observed.offered, observed.survived) == (3, 2)
    assert observed.repaired == pytest.approx(0.5)  # with the token that follows what survived


def test_what_comes_at_the_end_of_an_outage_repairs_at_once():
    assert watch((0, 2, ()), (1.5, 2, (7,)), (3.0, 4, ())).repaired == 0.0


def test_an_answer_that_was_right_to_its_end_is_repaired_with_its_last_token():
    observed = watch((0, 2, ()), (1.5, 2, (3, 4, 5, END)), (3.25, 4, ()), (3.5, 6, ()))
    assert observed == OutageObservation(offered=4, survived=4, pause=0.5, repaired=0.5)


@pytest.mark.parametrize(
    ("run", "bounds", "pause"),
    [
        ((3, 4), LengthLimits(99, 99), 1.75),
        ((3, END), LengthLimits(99, 99), 0.25),
        ((3, 4), LengthLimits(2, 99), 0.25),
        ((3, 4), LengthLimits(99, 4), 0.25),
    ],
    ids=["spent", "at its end", "as long as a run may be", "as long as an answer may be"],
)
def test_a_screen_stands_still_only_while_the_answer_is_not_written_to_its_end(run, bounds, pause):
    observed = watch((0, 2, ()), (1.25, 2, (3,)), (1.5, 2, run), (3.25, 6, ()), bounds=bounds)
    assert observed.pause == pytest.approx(pause)


def test_a_picture_that_shows_nothing_new_is_no_change():
    observed = watch((0, 2, ()), (1.5, 2, (3,)), (2.5, 2, (3,)), (3.5, 6, ()))
    assert observed.pause == pytest.approx(2.0)


def test_nothing_is_said_of_an_answer_that_was_over_before():
    with pytest.raises(ValueError, match="over before"):
        watch((0, 2, ()), (0.5, 6, ()))
