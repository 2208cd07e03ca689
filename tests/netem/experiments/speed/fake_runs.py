"""Runs that nobody ran: answers with the figures that a test wants."""

from collections.abc import Sequence
from dataclasses import replace

from netem.experiments.speed.runs import Run, TimedAnswer
from server.sessions.counters import Counters
from tests.client.demo.answers import answer


def run(
    speed: float,
    tokens: Sequence[int] = (1, 2, 3, 4),
    failure: str = "",
    note: str = "",
    commits: Sequence[float] = (),
) -> Run:
    """One answer of these tokens at `speed`, its first token after 0.1 s."""
    given = replace(answer(tuple(tokens), seconds=len(tokens) / speed, ttft=0.1), failure=failure, note=note)
    return Run([TimedAnswer(given, 0.0, tuple(commits))], Counters())
