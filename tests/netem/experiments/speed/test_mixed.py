"""`mixed`: its figures follow from the times of answers, and a broken promise makes the run invalid."""

from dataclasses import replace

import pytest

from client.drafting.policies import CLOUD, STREAM
from netem.experiments.speed import mixed_run
from netem.experiments.speed.mixed import MixedCell, make_report
from netem.experiments.speed.mixed_run import LINK, MixedLoad, MixedRun, run_mixed
from netem.experiments.speed.runs import Run, TimedAnswer
from netem.experiments.table_runs import ask
from netem.virtual.stream import HANDLING_S
from server.options import Pace
from server.sessions.counters import Counters
from tests.client.demo.answers import answer
from tests.netem.experiments.one_device.running import check

LOAD = MixedLoad(chats=2, readers=1, seconds=2.0, each=1, long_tokens=1000, answer_tokens=16)
PASS_S = 0.03


def timed(asked_s: float, *commits: float) -> Run:
    return Run([TimedAnswer(answer(), asked_s, commits)], Counters())


def report(gap: float, first_token: float, readers: int = 1):
    """Chats with a gap of 1 s and one of `gap`, and long prompts; 1 s and 2 s without each other."""
    calm = MixedRun(timed(5.0, 5.5, 6.5, 7.5), Run([], Counters()))
    alone = MixedRun(Run([], Counters()), timed(3.0, 5.0))
    mixed = MixedRun(timed(5.0, 5.5, 6.5, 6.5 + gap), timed(5.2, 5.2 + first_token))
    load = replace(LOAD, readers=readers)
    cells = [
        MixedCell("machine", "chats", replace(LOAD, readers=0), calm, calm, alone),
        MixedCell("machine", "chats", load, mixed, calm, alone),
    ]
    return make_report(cells)


def test_gaps_count_passes_and_first_tokens_times_alone_and_share():
    made = report(gap=1.5, first_token=9.0, readers=3)
    check("mixed", made)
    assert made.results["promised"]["measured"] == {"gap_passes": 1.5, "slower_than_share": 1.5}
    assert made.rows[1][3:] == ["1000 / 1500 / 1500 ms", "1.50", "500 / 500 ms", "9.00 s", "4.50", "1.50"]
    assert made.rows[0][6:] == ["-", "-", "-"]


def test_gaps_and_first_tokens_without_a_long_prompt_are_not_counted_beside_one():
    """A long prompt is asked at 10 s and has its first token at 12 s."""
    commits = (*range(1, 10), 9.8, 11.6, *range(13, 101))
    chats = Run([*timed(0.5, *commits).answers, *timed(11.0, 11.75).answers], Counters())
    run = MixedRun(chats, timed(10.0, 12.0))
    assert [run.chat_gap(share) for share in (0.0, 1.0)] == pytest.approx([1.4, 1.8])
    assert [run.chat_first_token(share) for share in (0.0, 1.0)] == [0.75, 0.75]
    alone = MixedRun(chats, Run([], Counters()))
    assert (alone.chat_gap(0.5), alone.chat_first_token(0.0)) == (1.0, 0.5)


@pytest.mark.parametrize(("gap", "first_token", "kept"), [(2.0, 4.0, True), (2.1, 4.0, False), (2.0, 4.1, False)])
def test_a_broken_promise_makes_the_run_invalid(gap, first_token, kept):
    made = report(gap, first_token)
    assert made.results["promised"]["kept"] == kept
    assert bool(made.faults) == (not kept)
    assert ("NOT kept" in made.remarks[0]) == (not kept)


def test_times_of_a_run_are_those_of_its_passes_and_link():
    """Every pass takes as long as any other, whatever it computes, so that times can be counted in passes."""
    run = run_mixed(Pace(PASS_S, 0.0), LOAD, CLOUD, seed=1)
    there_and_back = sum(way.delay_ms for way in (LINK.up, LINK.down)) / 1000
    assert len(run.long.answers) == LOAD.each
    assert len(run.chats.answers) > LOAD.chats
    assert run.chat_gap(0.5) == pytest.approx(PASS_S, rel=0.01)
    # 1,000 tokens in passes of 512; and less than a pass until the one begins that it takes part in.
    assert there_and_back + 2 * PASS_S <= run.long_first_token <= 2 * there_and_back + 4 * PASS_S
    shortest, longest = run.chat_first_token(0.0), run.chat_first_token(1.0)
    assert there_and_back + PASS_S <= shortest <= longest <= 2 * there_and_back + 3 * PASS_S


def test_a_long_prompt_alone_waits_for_its_own_passes():
    run = run_mixed(Pace(PASS_S, 0.0), replace(LOAD, chats=0, seconds=0.0), CLOUD, seed=1)
    assert run.chats.answers == []
    assert run.long_first_token == pytest.approx(2 * (LINK.up.delay_ms / 1000 + HANDLING_S + PASS_S), rel=0.01)


def test_chats_are_asked_the_same_whoever_asks_beside_them(monkeypatch):
    prompts: list[dict[str, tuple[int, ...]]] = []

    def recorded(engine, link, session, prompt, *others):
        prompts[-1][session] = tuple(prompt)
        return ask(engine, link, session, prompt, *others)

    monkeypatch.setattr(mixed_run, "ask", recorded)
    for readers in (0, 2):
        prompts.append({})
        run_mixed(Pace(PASS_S, 0.0), replace(LOAD, readers=readers), STREAM, seed=1)
    alone, beside = ({session: each for session, each in asked.items() if len(each) < 1000} for asked in prompts)
    both = alone.keys() & beside.keys()
    assert len(both) >= 2 * LOAD.chats
    assert {session: alone[session] for session in both} == {session: beside[session] for session in both}
    assert len(set(alone.values())) == len(alone)
