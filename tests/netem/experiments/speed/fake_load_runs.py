"""Load runs with invented figures, for tests of reports. Nothing else may live here."""

from dataclasses import replace

from netem.experiments.speed.load_run import LoadRun
from netem.experiments.speed.runs import TimedAnswer
from server.sessions.counters import Counters
from tests.client.demo.answers import answer


def timed(asked_s: float, seconds: float, tokens: tuple[int, ...] = (1, 2, 3, 4), failure: str = "") -> TimedAnswer:
    return TimedAnswer(replace(answer(tokens, seconds=seconds), failure=failure), asked_s, (asked_s + seconds,))


def run(*answers: TimedAnswer, busy: float = 1.0, levels: int = 0) -> LoadRun:
    tokens = sum(each.answer.stats.tokens for each in answers)
    return LoadRun(
        answers,
        Counters(passes=10, session_passes=25, committed_tokens=tokens, busy_seconds=busy, assisted_levels=levels),
    )
