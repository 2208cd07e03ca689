"""One system's answers on the virtual clock, with when each commit came.

May know how a virtual run is put together. It may not know tables, or which systems are compared.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from client.answer import Answer, TokenListener
from client.answering import AnswerOptions
from client.demo.asking import ignore_tokens
from client.demo.comparison import is_identical
from client.stats import Stats, combined, per
from netem.experiments.experiment import Advance
from netem.experiments.speed.ground import Ground
from netem.experiments.speed.systems import System
from netem.links.profile import LinkProfile
from netem.links.profiles import find_profile
from netem.virtual.clock import run_virtually
from netem.virtual.laptop import ask
from server.engine import Engine
from server.sessions.counters import Counters

CODE = "code"

_APART = 40.0
"""Virtual seconds between prompts, longer than an answer takes."""


@dataclass(frozen=True)
class Extent:
    """How much is asked: `prompts` of each kind, and `tokens` of an answer at most."""

    links: tuple[str, ...]
    prompts: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer, when it was asked for, and when each of its commits came, in virtual seconds."""

    answer: Answer
    asked: float
    commits: tuple[float, ...]

    @property
    def gaps(self) -> list[float]:
        """Seconds between commits; tokens of one burst have none."""
        return [later - earlier for earlier, later in zip(self.commits, self.commits[1:], strict=False)]


@dataclass(frozen=True)
class Run:
    """The answers to several prompts, and what the server counted."""

    answers: Sequence[Timed]
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
    """The smallest value that at least this share of them does not exceed; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def drawn(profile: LinkProfile, *numbers: int) -> LinkProfile:
    """The link with draws that belong to these numbers, all but the last of them below 1000, so that every system that
    is asked under the same numbers meets the same link."""
    return replace(profile, seed=sum(number * 1000**place for place, number in enumerate(numbers)))


@dataclass(frozen=True, slots=True)
class Asker:
    """One system at an engine: every question comes over a connection of its own, with a fresh drafter.

    Needs a virtual loop.
    """

    ground: Ground
    engine: Engine
    system: System
    options: AnswerOptions

    async def ask(self, profile: LinkProfile, tokens: Sequence[int], watch: TokenListener = ignore_tokens) -> Answer:
        drafter = self.ground.drafter(self.system.draft)
        return await ask(self.engine, self.ground.datacenter, profile, tokens, self.options, drafter, watch)

    async def ask_timed(self, profile: LinkProfile, tokens: Sequence[int]) -> Timed:
        clock = asyncio.get_running_loop().time
        commits: list[float] = []

        def watch(committed: Sequence[int], provisional: Sequence[int]) -> None:
            if committed:
                commits.append(clock())

        asked = clock()
        answer = await self.ask(profile, tokens, watch)
        return Timed(answer, asked, tuple(commits))


def run_alone(
    ground: Ground, profile: LinkProfile, system: System, prompts: Sequence[Sequence[int]], new_tokens: int
) -> Run:
    """One client asks one prompt after the other; the link's draws and the moment are the prompt's own, so that every
    system meets the same link."""

    async def main() -> Run:
        clock = asyncio.get_running_loop().time
        async with ground.datacenter.serve() as engine:
            asker, answers = Asker(ground, engine, system, system.options(new_tokens)), []
            for number, tokens in enumerate(prompts):
                await asyncio.sleep(number * _APART - clock())
                answers.append(await asker.ask_timed(drawn(profile, number), tokens))
            return Run(answers, engine.counters)

    return run_virtually(main())


Runs = Mapping[str, Mapping[str, Run]]
"""By link, then by system."""


async def run_everywhere(
    ground: Ground, links: Sequence[str], systems: Mapping[str, System], extent: Extent, advance: Advance
) -> Runs:
    """Every system alone on every link, with prompts for code."""
    runs: dict[str, dict[str, Run]] = {link: {} for link in links}
    for number, link in enumerate(links):
        for place, (name, system) in enumerate(systems.items()):
            advance(f"{link}, {name}", (number + place / len(systems)) / len(links))
            # In a thread: the virtual clock has an event loop of its own.
            runs[link][name] = await asyncio.to_thread(
                run_alone, ground, find_profile(link), system, ground.prompts[CODE], extent.tokens
            )
    return runs


def fault_of(answer: Answer) -> str:
    """Why an answer says nothing of its system: it is not whole, or its drafter failed. Empty where it is sound."""
    return f"an answer broke off: {answer.failure}" if answer.failure else answer.note


def are_alike(runs: Iterable[Run]) -> bool:
    """Whether the answers of runs that asked the same prompts have the same tokens."""
    return is_identical([timed.answer for timed in run.answers] for run in runs)


def faults_of(runs: Sequence[Run]) -> list[str]:
    """Why runs that asked the same prompts are not valid, if so."""
    answers = [timed.answer for run in runs for timed in run.answers]
    faults = [fault for answer in answers if (fault := fault_of(answer))]
    if not are_alike(runs):
        faults.append("the answers differ between systems or links, which must never happen")
    return faults
