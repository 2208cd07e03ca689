"""One condition of the experiment: many short answers at one timing with one shape of tree and one drafter, through the
real conversation, drafting loop, server sessions and engine on the virtual clock.

May know how client and server are assembled. It may not know which distribution the answers should have.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product, starmap
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from client.answering import AnswerOptions
from client.drafting.policies import LOCKSTEP, STREAM, Policy
from common.drafters.best_first import Expansion
from common.pacing import Timed
from common.protocol.sampling import Sampling
from common.protocol.terms import Terms
from common.protocol.views import Proposal
from netem.experiments.law.tables import CHANCES, DRAFTERS, END, VOCABULARY, Tables, TableTarget
from netem.experiments.speed.runs import drawn, fault_of
from netem.experiments.table_runs import ask, serving
from netem.links.profile import Direction, LinkProfile
from netem.virtual.clock import VirtualWorker, run_virtually
from server.engine import Engine
from server.options import Pace
from server.sessions.admission import ServingLimits

PROMPT = (1, 2)
TOKENS = 3  # counted of each answer; one more is requested, so that each of these may have been drafted

Result = TypeVar("Result")

_CAPACITY = 4096
_TERMS = Terms("law", VOCABULARY, 64, frozenset({END}), lambda tokens: "")


@dataclass(frozen=True)
class Timing:
    """The costs of passes and levels, the link, and the policies of both sides. clients: at the same time."""

    name: str
    pace: Pace
    level_s: float
    way: Direction
    idle: str = "eager"
    policy: Policy = STREAM
    clients: int = 1
    pass_tokens: int = 512


def _timing(
    name: str, pass_ms: float, level_ms: float, way_ms: float, jitter_ms: float = 0.0, **more: object
) -> Timing:
    way = Direction(rate_bits_per_s=1e8, delay_ms=way_ms, jitter_ms=jitter_ms)
    return Timing(name, Pace(pass_ms / 1000), level_ms / 1000, way, **more)  # type: ignore[arg-type]


TIMINGS: tuple[Timing, ...] = (
    _timing("next door", 17, 5, 1),
    _timing("next door, faster", 8.5, 2.5, 0.4),
    _timing("next door, slower", 34, 10, 2),
    _timing("next door, patient", 17, 5, 1, 2, idle="patient"),
    _timing("passes of four levels", 21, 5, 2, 2),
    _timing("passes of six levels", 31, 5, 2, 2),
    _timing("slow levels", 40, 11, 5, 4),
    _timing("a city away", 30, 5, 10, 4),
    _timing("an ocean away", 30, 5, 45, 8),
    _timing("rounds that nobody waits for", 36, 5, 3, 3, policy=LOCKSTEP),
    replace(_timing("tokens that cost", 17, 5, 3, 3, clients=3), pace=Pace(0.017, 0.002)),
    _timing("passes of twelve tokens", 17, 5, 3, 3, clients=3, pass_tokens=12),
)

SHAPES: dict[str, Expansion | None] = {
    "two wide, one child": Expansion(breadth=2, children=1, nodes=64, least_probability=0.02),
    "two wide, eight children": Expansion(breadth=2, children=8, nodes=64, least_probability=0.02),
    "eight wide, eight children": Expansion(breadth=8, children=8, nodes=62, least_probability=0.005),
    "the controller's": None,
}


class _LevelWorker(VirtualWorker):
    """A step takes its cost for each level that it draws: so groups would leave later by what is drawn below them."""

    async def run(
        self, cost: float, compute: Callable[[], Result], before: Callable[[], object] | None = None
    ) -> tuple[Result, Timed]:
        proposals = compute()
        drawn = levels(cast(Sequence[Proposal], proposals))
        return await super().run(cost * max(1, drawn), lambda: proposals, before)


def levels(proposals: Sequence[Proposal]) -> int:
    """How many levels these are; the parent of one in the second is -1 for the first proposal, -2 for the second."""
    depths: list[int] = []
    for each in proposals:
        depths.append(1 + (depths[-each.parent - 1] if each.parent < 0 else 0))
    return max(depths, default=0)


@dataclass(frozen=True)
class RankCounts:
    """counts: [TOKENS, ranks], how often a token of each rank came at each position of an answer. passes: of each
    answer. faults: of answers that cannot be counted, such as those whose drafter failed."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros((TOKENS, len(CHANCES)), np.int64))
    passes: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Condition:
    """shape: one of SHAPES. drafter: one of DRAFTERS."""

    timing: Timing
    shape: str
    drafter: str = "levels"

    @property
    def names(self) -> tuple[str, str, str]:
        return self.timing.name, self.shape, self.drafter


CONDITIONS = tuple(starmap(Condition, product(TIMINGS, SHAPES, DRAFTERS)))


def sample(condition: Condition, tables: Tables, answers: int, seed: int) -> RankCounts:
    """Counts the tokens of `answers` answers, each with a seed of its own. Deterministic."""
    return run_virtually(_sample(condition, tables, answers, seed))


async def _sample(condition: Condition, tables: Tables, answers: int, seed: int) -> RankCounts:
    timing, make_drafter = condition.timing, DRAFTERS[condition.drafter]
    counted = RankCounts()
    seeds = iter(range(seed * answers, (seed + 1) * answers))
    profile = LinkProfile(timing.name, "of the law", timing.way, timing.way)
    policy = replace(timing.policy, tree=SHAPES[condition.shape])

    async def ask_in_turn(engine: Engine) -> None:
        for each in seeds:
            sampling = Sampling(temperature=1.0, seed=each)
            options = AnswerOptions(policy, TOKENS + 1, "speculative", timing.idle, timing.level_s, sampling)
            drafter = make_drafter(tables, each)
            answer = await ask(
                engine, drawn(profile, each), f"{each:032x}", PROMPT, options, drafter, make_worker=_LevelWorker
            )
            for position, rank in enumerate(tables.ranks(PROMPT[-1], answer.tokens[:TOKENS])):
                counted.counts[position, rank] += 1
            counted.passes.append(answer.stats.passes)
            if fault := fault_of(answer):
                counted.faults.append(fault)

    limits = ServingLimits(timing.clients, timing.pass_tokens, 0.0)
    async with serving(TableTarget(tables, _CAPACITY), _TERMS, limits, timing.pace, _CAPACITY) as engine:
        await asyncio.gather(*(ask_in_turn(engine) for _ in range(timing.clients)))
    return counted
