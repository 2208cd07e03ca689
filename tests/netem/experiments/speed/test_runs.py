"""What is read off runs, and real ones on the virtual clock."""

import json
from itertools import product

import pytest

from common.protocol.errors import OutriderError
from netem.experiments.experiment import Request
from netem.experiments.speed.runs import drawn, faults_of, quantile, run_alone, whole
from netem.experiments.speed.systems import AUTO, CLOUD_DECODING, LOCKSTEP_MOA
from netem.experiments.speed.testbed import open_testbed
from netem.links.profiles import find_profile
from tests.netem.experiments.speed.fake_runs import run


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [(range(1, 21), 0.95, 19), ((1, 2), 0.5, 1), (range(1, 41), 0.95, 38), ((), 0.5, 0)],
)
def test_a_quantile_is_the_least_value_that_so_many_do_not_exceed(values, share, expected):
    assert quantile(list(values), share) == expected


def test_gaps_lie_between_commits():
    assert run(10, commits=(0.1, 0.4, 0.5)).gap(1.0) == pytest.approx(0.3)
    assert run(10, commits=(0.1,)).gap(0.95) == 0.0


def test_answers_that_differ_or_broke_off_make_runs_invalid():
    assert faults_of([run(10), run(20)]) == []
    assert len(faults_of([run(10), run(10, tokens=(1, 2, 3, 5))])) == 1
    assert "the line is cut" in faults_of([run(10, failure="the line is cut")])[0]
    assert faults_of([run(10), run(10, note="the drafter failed")]) == ["the drafter failed"]


def test_an_answer_that_cannot_be_counted_is_refused():
    (timed,) = run(10).answers
    assert whole(timed.answer) is timed.answer
    for one in (run(10, failure="the line is cut"), run(10, note="the drafter failed")):
        with pytest.raises(OutriderError, match=r"the line is cut|the drafter failed"):
            whole(one.answers[0].answer)


def test_links_are_drawn_anew_for_other_numbers_and_alike_for_the_same():
    profile = find_profile("4g")
    numbers = list(product(range(3), range(3), range(3)))
    assert len({drawn(profile, *each).seed for each in numbers}) == len(numbers)
    assert drawn(profile, 1, 2) == drawn(profile, 1, 2)
    assert [drawn(profile, number).seed for number in (0, 7)] == [0, 7]
    assert drawn(profile, 0, 7).up == profile.up


@pytest.fixture(scope="module")
def testbed():
    return open_testbed(Request(0, quick=True), 1)


def test_a_run_is_reported_the_same_when_it_is_run_again(testbed):
    profile, prompts = find_profile("4g"), testbed.prompts["code"]
    first, again = (run_alone(testbed, profile, AUTO, prompts, 24) for _ in range(2))
    assert first.counters.state_frames > 0
    assert json.dumps(first.as_dict()) == json.dumps(again.as_dict())


def test_systems_answer_alike_and_ours_is_faster(testbed):
    profile, prompts = find_profile("4g"), testbed.prompts["code"]
    runs = [run_alone(testbed, profile, system, prompts, 40) for system in (CLOUD_DECODING, LOCKSTEP_MOA, AUTO)]
    assert faults_of(runs) == []
    cloud, rounds, auto = (each.stats.tokens_per_second for each in runs)
    assert cloud < rounds < auto
    assert runs[0].stats.passes == runs[0].stats.tokens
