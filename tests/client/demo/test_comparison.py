import pytest

from client.demo.comparison import compare, rotations
from tests.client.demo.answers import answer, counted

QUIET = {"cloud": counted(), "outrider": counted()}


def test_both_ratios_divide_what_the_table_shows():
    answers = {
        "cloud": [answer(seconds=2.0, ttft=0.2), answer(seconds=6.0, ttft=0.4)],
        "outrider": [answer(seconds=1.0, ttft=0.3), answer(seconds=1.0, ttft=0.3)],
    }
    systems = compare(answers, QUIET).systems
    assert systems["outrider"].speed_up == pytest.approx(4.0)
    assert systems["outrider"].ttft_ratio == pytest.approx(1.0)
    assert (systems["cloud"].speed_up, systems["cloud"].ttft_ratio) == (1.0, 1.0)


@pytest.mark.parametrize(("second", "identical"), [((1, 2), True), ((1, 3), False), ((1,), False)])
def test_answers_are_identical_token_for_token(second, identical):
    comparison = compare({"cloud": [answer((1, 2))], "outrider": [answer(second)]}, QUIET)
    assert comparison.identical is comparison.as_dict()["identical"] is identical


def test_no_system_hides_its_overruns_behind_the_others():
    answers = {"cloud": [answer()], "outrider": [answer()]}
    comparison = compare(answers, {"cloud": counted(passes=10_000), "outrider": counted(overrun=6)})
    (overrun,) = comparison.overruns
    assert overrun.startswith("6.0% of the passes of outrider")
    assert compare(answers, {"cloud": counted(), "outrider": counted(overrun=5)}).overruns == []


def test_late_levels_are_a_share_of_the_system_s_own():
    answers = {"cloud": [answer()], "outrider": [answer(levels=30, late=1), answer(levels=10, late=1)]}
    systems = compare(answers, QUIET).as_dict()["systems"]
    assert systems["outrider"]["overrun_levels"] == pytest.approx(0.05)
    assert systems["cloud"]["overrun_levels"] == 0.0


def test_every_system_comes_first_in_turn():
    assert list(rotations(("a", "b", "c"), 4)) == [("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b"), ("a", "b", "c")]
