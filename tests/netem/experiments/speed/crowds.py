"""Crowds out of thin air, for tests of what is made of them. Nothing else may live here."""

from dataclasses import replace

from netem.experiments.speed.load_crowd import Crowd
from netem.experiments.speed.runs import Timed
from server.sessions.counters import Counters
from tests.client.demo.answers import answer


def timed(asked: float, seconds: float, tokens: tuple[int, ...] = (1, 2, 3, 4), failure: str = "") -> Timed:
    return Timed(replace(answer(tokens, seconds=seconds), failure=failure), asked, (asked + seconds,))


def crowd(*answers: Timed, busy: float = 1.0, levels: int = 0) -> Crowd:
    tokens = sum(each.answer.stats.tokens for each in answers)
    return Crowd(
        answers,
        Counters(passes=10, session_passes=25, committed_tokens=tokens, busy_seconds=busy, assisted_levels=levels),
    )
