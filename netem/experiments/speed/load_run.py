"""Runs many clients at once on one server, on the virtual clock, and computes latency and throughput.

May know how a virtual run is assembled. It may not know tables, or which systems and loads are compared.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from client.stats import per
from netem.experiments.speed.load_clients import LoadClient
from netem.experiments.speed.runs import Asker, Run, TimedAnswer, drawn, quantile
from netem.experiments.speed.systems import System
from netem.experiments.speed.testbed import Testbed
from netem.links.profile import LinkProfile
from netem.virtual.clock import run_virtually
from netem.virtual.server import PACE
from server.engine import Engine

_MAX_SESSIONS = 1024
"""Enough that no client is refused, so that a slow system has a queue and not fewer answers."""


@dataclass(frozen=True)
class LoadRun(Run):
    """Answers in the order of their clients. Seconds are virtual; pass-seconds are the stated costs of all passes."""

    @property
    def latencies(self) -> list[float]:
        """Seconds of every answer, from the request to its end."""
        return [timed.answer.stats.seconds for timed in self.answers]

    @property
    def mean_latency(self) -> float:
        return fmean(self.latencies)

    @property
    def tokens(self) -> int:
        return self.stats.tokens

    @property
    def seconds(self) -> float:
        """From the first request to the end of the last answer."""
        ends = [timed.asked_s + timed.answer.stats.seconds for timed in self.answers]
        return max(ends) - min(timed.asked_s for timed in self.answers)

    @property
    def tokens_per_second(self) -> float:
        """Throughput of all clients together."""
        return per(self.tokens, self.seconds)

    @property
    def tokens_per_client_second(self) -> float:
        """The speed of one client's answers: the tokens of all answers over the sum of their seconds."""
        return per(self.tokens, sum(self.latencies))

    @property
    def tokens_per_pass_second(self) -> float:
        return per(self.counters.committed_tokens, self.counters.busy_seconds)

    @property
    def drafting_seconds(self) -> float:
        """The stated costs of the levels that the server drafted itself."""
        return self.counters.assisted_levels * PACE.per_level

    @property
    def tokens_per_work_second(self) -> float:
        """Tokens per second of passes and server drafting added up, although the two run in parallel."""
        return per(self.counters.committed_tokens, self.counters.busy_seconds + self.drafting_seconds)

    @property
    def levels_per_second(self) -> float:
        """Levels that the server drafts, per second of the run."""
        return per(self.counters.assisted_levels, self.seconds)

    @property
    def pass_share(self) -> float:
        """The share of the run in which a pass was running."""
        return per(self.counters.busy_seconds, self.seconds)

    def as_dict(self) -> dict[str, Any]:
        return {
            **super().as_dict(),
            "mean_latency_seconds": self.mean_latency,
            "p95_latency_seconds": quantile(self.latencies, 0.95),
            "span_seconds": self.seconds,
            "tokens_per_second_of_all": self.tokens_per_second,
            "tokens_per_second_of_a_client": self.tokens_per_client_second,
            "tokens_per_pass_second": self.tokens_per_pass_second,
            "tokens_per_pass_or_drafting_second": self.tokens_per_work_second,
            "server_levels_per_second": self.levels_per_second,
            "share_of_time_in_passes": self.pass_share,
        }


def run_load(
    testbed: Testbed, profile: LinkProfile, system: System, clients: Sequence[LoadClient], new_tokens: int
) -> LoadRun:
    """Runs all clients to their end. Every request has a link of its own, seeded by its client and turn, so that all
    systems meet the same links."""

    async def answer_client(engine: Engine, number: int, client: LoadClient) -> list[TimedAnswer]:
        await asyncio.sleep(client.arrives_s)
        asker = Asker(testbed, engine, system, system.options(new_tokens))
        return [
            await asker.ask_timed(drawn(profile, number, turn), tokens) for turn, tokens in enumerate(client.prompts)
        ]

    async def main() -> LoadRun:
        async with testbed.server.serve(max_sessions=_MAX_SESSIONS) as engine:
            attended = await asyncio.gather(*(answer_client(engine, *each) for each in enumerate(clients)))
            return LoadRun([timed for answers in attended for timed in answers], engine.counters)

    return run_virtually(main())
