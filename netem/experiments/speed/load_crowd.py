"""Many clients at once on one server, on the virtual clock, and what their answers and the server's work come to.

May know how a virtual run is put together. It may not know tables, or which systems and loads are compared.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from client.stats import per
from netem.experiments.speed.ground import Ground
from netem.experiments.speed.load_comers import Comer
from netem.experiments.speed.runs import Asker, Run, Timed, drawn, quantile
from netem.experiments.speed.systems import System
from netem.links.profile import LinkProfile
from netem.virtual.clock import run_virtually
from netem.virtual.datacenter import PACE
from server.engine import Engine

_ROOM_FOR_ALL = 1024
"""Sessions: nobody is turned away, so that a slow system has a queue and not fewer answers."""


@dataclass(frozen=True)
class Crowd(Run):
    """Answers in the order of their clients. Seconds are virtual; pass-seconds are stated costs of the passes."""

    @property
    def latencies(self) -> list[float]:
        """Of every answer, from asking to its end."""
        return [timed.answer.stats.seconds for timed in self.answers]

    @property
    def mean_latency(self) -> float:
        return fmean(self.latencies)

    @property
    def tokens(self) -> int:
        return self.stats.tokens

    @property
    def seconds(self) -> float:
        """From the first question to the end of the last answer."""
        ends = [timed.asked + timed.answer.stats.seconds for timed in self.answers]
        return max(ends) - min(timed.asked for timed in self.answers)

    @property
    def tokens_per_second(self) -> float:
        """Of all clients together."""
        return per(self.tokens, self.seconds)

    @property
    def tokens_per_client_second(self) -> float:
        """As one client sees its answers come."""
        return per(self.tokens, sum(self.latencies))

    @property
    def tokens_per_pass_second(self) -> float:
        return per(self.counters.committed_tokens, self.counters.busy_seconds)

    @property
    def drafting_seconds(self) -> float:
        """What the server spent on drafting itself, beside its passes."""
        return self.counters.assisted_levels * PACE.per_level

    @property
    def tokens_per_work_second(self) -> float:
        """Passes and the server's own drafting counted alike, though they run side by side."""
        return per(self.counters.committed_tokens, self.counters.busy_seconds + self.drafting_seconds)

    @property
    def levels_per_second(self) -> float:
        """Drafted on the server."""
        return per(self.counters.assisted_levels, self.seconds)

    @property
    def pass_share(self) -> float:
        """The share of the time in which a pass was running."""
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


def run_crowd(ground: Ground, profile: LinkProfile, system: System, comers: Sequence[Comer], new_tokens: int) -> Crowd:
    """Every question has a link of its own, drawn by its client and turn, so that all systems meet the same links."""

    async def attend(engine: Engine, number: int, comer: Comer) -> list[Timed]:
        await asyncio.sleep(comer.comes)
        asker = Asker(ground, engine, system, system.options(new_tokens))
        return [
            await asker.ask_timed(drawn(profile, number, turn), tokens) for turn, tokens in enumerate(comer.prompts)
        ]

    async def main() -> Crowd:
        async with ground.datacenter.serve(max_sessions=_ROOM_FOR_ALL) as engine:
            attended = await asyncio.gather(*(attend(engine, *each) for each in enumerate(comers)))
            return Crowd([timed for answers in attended for timed in answers], engine.counters)

    return run_virtually(main())
