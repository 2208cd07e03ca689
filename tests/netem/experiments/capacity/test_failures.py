"""Replicas that die: nobody's answer is lost, and who waits."""

import pytest

from netem.experiments.capacity.failures import FailingLoad, FailingRun, make_report, run_failing
from netem.experiments.capacity.gaps import LinkGaps
from netem.experiments.capacity.measure import EAGER, PLAIN
from netem.experiments.capacity.replay import Replay, ReplayDrafter
from tests.netem.experiments.capacity.recordings import PREDICTABLE
from tests.netem.experiments.one_device.running import check

CALM = FailingLoad(replicas=2, clients=4, seconds=3.0, dies_after_s=None)
DEADLY = FailingLoad(replicas=2, clients=4, seconds=3.0, dies_after_s=1.0, back_after_s=0.5)


@pytest.mark.parametrize("system", [PLAIN, EAGER])
def test_answers_go_on_elsewhere_and_are_the_same(system) -> None:
    run = run_failing(Replay(PREDICTABLE), system, DEADLY, seed=1)
    assert run.deaths >= 2
    assert run.moved >= 2
    assert run.answers >= 4
    assert run.different == 0
    assert len(run.waits) >= run.moved
    assert all(0.05 < wait < 0.3 for wait in run.waits), "until the next commit, not to the answer's end"


def test_every_move_of_a_session_counts_and_is_called_so() -> None:
    load = FailingLoad(replicas=2, clients=2, seconds=4.0, dies_after_s=0.4, back_after_s=0.2)
    run = run_failing(Replay(PREDICTABLE), PLAIN, load, seed=1)
    report = make_report({("plain", load): run}, load)
    assert run.moved > run.answers, "some moved more than once"
    assert report.rows[0][report.headings.index("moves of sessions")] == str(run.moved)


def test_an_answer_that_lost_its_drafter_does_not_count_as_the_same(monkeypatch) -> None:
    def die(*_: object) -> None:
        raise RuntimeError("no state")

    monkeypatch.setattr(ReplayDrafter, "draft", die)
    run = run_failing(Replay(PREDICTABLE), EAGER, CALM, seed=1)
    assert run.different == run.answers > 0


def test_a_run_is_the_same_again() -> None:
    waits = [run_failing(Replay(PREDICTABLE), PLAIN, DEADLY, seed=1).waits for _ in range(2)]
    assert waits[0] == waits[1] != []


def test_where_nobody_dies_nobody_waits_or_moves() -> None:
    run = run_failing(Replay(PREDICTABLE), PLAIN, CALM, seed=1)
    assert (run.deaths, run.moved, run.waits) == (0, 0, [])
    assert (
        run.gaps.tokens_per_client_second
        > run_failing(Replay(PREDICTABLE), PLAIN, DEADLY, seed=1).gaps.tokens_per_client_second
    )


def test_who_still_waits_at_the_end_has_waited() -> None:
    gone = FailingLoad(replicas=1, clients=4, seconds=3.0, dies_after_s=0.5, back_after_s=60.0)
    run = run_failing(Replay(PREDICTABLE), PLAIN, gone, seed=1)
    assert run.deaths == 1
    assert len(run.waits) == 4
    assert len({round(wait, 6) for wait in run.waits}) == 1, "all of them since the death"


def test_another_answer_makes_a_run_invalid() -> None:
    runs = {
        ("eager", CALM): FailingRun(LinkGaps(5, 1.0, [0.2]), answers=4),
        ("eager", DEADLY): FailingRun(LinkGaps(5, 1.0, [0.2]), 3, 4, 0, 2, [0.5, 0.7]),
    }
    report = make_report(runs, DEADLY)
    check("capacity-failures", report)
    assert report.faults == []
    runs["eager", DEADLY].different = 1
    assert make_report(runs, DEADLY).faults == ["1 answers differ from the recorded ones"]
