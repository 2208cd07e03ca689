"""Runs one system on the virtual clock, and records when each commit arrived.

May know how a virtual run is assembled. It may not know tables, or which systems are compared.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from client.answer import DRAFTER_FAILED, Answer, TokenListener
from client.answering import AnswerOptions
from client.demo.asking import ignore_tokens
from client.demo.comparison import is_identical
from client.stats import Stats, combined, per
from common.protocol.errors import OutriderError
from common.stated_costs import STATED
from netem.experiments.experiment import Advance
from netem.experiments.speed.systems import System
from netem.experiments.speed.testbed import Testbed
from netem.links.profile import LinkProfile
from netem.links.profiles import find_profile
from netem.virtual.client import ask
from netem.virtual.clock import run_virtually
from netem.virtual.server import PACE
from server.engine import Engine
from server.options import Pace
from server.sessions.counters import Counters

CODE = "code"

_APART_S = 40.0
"""Virtual time between prompts, longer than an answer takes."""


@dataclass(frozen=True)
class SpeedWorkload:
    """`prompts` of each category on each of `links`, with answers of at most `tokens`."""

    links: tuple[str, ...]
    prompts: int
    tokens: int


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """An answer, the time of its request, and the times at which its commits arrived, in virtual seconds."""

    answer: Answer
    asked_s: float
    commits: tuple[float, ...]

    @property
    def gaps(self) -> list[float]:
        """Seconds between commits; tokens of one commit have no gap."""
        return [later - earlier for earlier, later in zip(self.commits, self.commits[1:], strict=False)]


@dataclass(frozen=True)
class Run:
    """The answers to several prompts, and the server's counters."""

    answers: Sequence[TimedAnswer]
    counters: Counters

    @property
    def stats(self) -> Stats:
        return combined([timed.answer.stats for timed in self.answers])

    def gap(self, share: float) -> float:
        """The quantile of all gaps between commits, in seconds; 0 where there is none."""
        return quantile([gap for timed in self.answers for gap in timed.gaps], share)

    def as_dict(self) -> dict[str, Any]:
        stats = self.stats
        return {
            **stats.as_dict(),
            "gap_p50_seconds": self.gap(0.5),
            "gap_p95_seconds": self.gap(0.95),
            "passes_per_token": per(stats.passes, stats.tokens),
            "bytes_up_per_token": per(stats.bytes_up, stats.tokens),
            "bytes_down_per_token": per(stats.bytes_down, stats.tokens),
            "server": self.counters.summary(),
        }


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed; 0 where there are no values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


_LEAST_FOR_P95 = 20
"""Of fewer values the 95th percentile is the largest."""


def latency_in_words(mean_s: float, p95_s: float, answers: int) -> str:
    """The mean and the 95th percentile; the mean alone where answers are too few for the other."""
    return f"{mean_s:.2f} / {p95_s:.2f} s" if answers >= _LEAST_FOR_P95 else f"{mean_s:.2f} s"


def drawn(profile: LinkProfile, *numbers: int) -> LinkProfile:
    """The link with a seed made of these numbers, so that every system with the same numbers meets the same link.

    numbers: all but the last below 1000.
    """
    return replace(profile, seed=sum(number * 1000**index for index, number in enumerate(numbers)))


@dataclass(frozen=True, slots=True)
class Asker:
    """Sends requests of one system to an engine, each over a new connection with a new drafter.

    Needs a running virtual loop.
    """

    testbed: Testbed
    engine: Engine
    system: System
    options: AnswerOptions

    async def ask(self, profile: LinkProfile, tokens: Sequence[int], watch: TokenListener = ignore_tokens) -> Answer:
        drafter = self.testbed.drafter(self.system.draft, self.system.beside)
        return await ask(self.engine, self.testbed.server, profile, tokens, self.options, drafter, watch)

    async def ask_timed(self, profile: LinkProfile, tokens: Sequence[int]) -> TimedAnswer:
        clock = asyncio.get_running_loop().time
        commits: list[float] = []

        def watch(committed: Sequence[int], provisional: Sequence[int]) -> None:
            if committed:
                commits.append(clock())

        asked_s = clock()
        answer = await self.ask(profile, tokens, watch)
        return TimedAnswer(answer, asked_s, tuple(commits))


def run_alone(
    testbed: Testbed,
    profile: LinkProfile,
    system: System,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    level_seconds: float = STATED.draft_seconds,
    pace: Pace = PACE,
) -> Run:
    """One client, whose drafted levels take `level_seconds`, sends one prompt after the other to a server that keeps
    to `pace`. Each prompt has a time and a seed of the link of its own, so that every system meets the same link."""

    async def main() -> Run:
        clock = asyncio.get_running_loop().time
        async with testbed.server.serve(pace) as engine:
            asker, answers = Asker(testbed, engine, system, system.options(new_tokens, level_seconds)), []
            for number, tokens in enumerate(prompts):
                await asyncio.sleep(number * _APART_S - clock())
                answers.append(await asker.ask_timed(drawn(profile, number), tokens))
            return Run(answers, engine.counters)

    return run_virtually(main())


Runs = Mapping[str, Mapping[str, Run]]
"""Runs by link, then by system."""


async def run_everywhere(
    testbed: Testbed, links: Sequence[str], systems: Mapping[str, System], workload: SpeedWorkload, advance: Advance
) -> Runs:
    """Every system on every link, one at a time, with prompts for code."""
    runs: dict[str, dict[str, Run]] = {link: {} for link in links}
    for number, link in enumerate(links):
        for index, (name, system) in enumerate(systems.items()):
            advance(f"{link}, {name}", (number + index / len(systems)) / len(links))
            # In a thread: the virtual clock has an event loop of its own.
            runs[link][name] = await asyncio.to_thread(
                run_alone, testbed, find_profile(link), system, testbed.prompts[CODE], workload.tokens
            )
    return runs


def fault_of(answer: Answer) -> str:
    """Why an answer cannot be counted: it is incomplete, or its drafter failed. Empty where it can."""
    return f"an answer broke off: {answer.failure}" if answer.failure else answer.note


def drafter_failure(answer: Answer) -> str:
    """Why the drafter failed, where links break: a note of the link or of offline text is no failure."""
    return answer.note if answer.note.startswith(DRAFTER_FAILED) else ""


def whole(answer: Answer) -> Answer:
    """The answer. Raises OutriderError where it cannot be counted."""
    if fault := fault_of(answer):
        raise OutriderError(fault)
    return answer


def are_alike(runs: Iterable[Run]) -> bool:
    """Whether the answers of runs with the same prompts have the same tokens."""
    return is_identical([timed.answer for timed in run.answers] for run in runs)


def faults_of(runs: Sequence[Run]) -> list[str]:
    """Why runs with the same prompts are not valid; empty where they are."""
    answers = [timed.answer for run in runs for timed in run.answers]
    faults = [fault for answer in answers if (fault := fault_of(answer))]
    if not are_alike(runs):
        faults.append("the answers differ between systems or links, which must never happen")
    return faults
