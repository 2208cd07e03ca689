"""Answers of one system over one link to prompts with schemas, on the virtual clock, and what is counted of them.

Systems run in processes of their own, which load the models and make the same prompts. It may not know which systems
are compared, or whether an answer fits its schema.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED
from dataclasses import dataclass, field, replace
from functools import cache

from client.answer import Answer
from client.answering import AnswerOptions
from client.stats import combined
from client.text import chat_tokens
from common.models.tokenizer import Tokenizer
from common.protocol.constraint import Grammar
from common.protocol.messages import Constraint
from common.stated_costs import STATED
from netem.experiments.conformance.asked import make_question
from netem.experiments.conformance.schemas import Schema, make_schema
from netem.experiments.experiment import Advance, Request
from netem.experiments.process_pool import process_pool
from netem.experiments.speed.runs import CODE, Asker, drawn
from netem.experiments.speed.systems import System
from netem.experiments.speed.testbed import Testbed, open_testbed
from netem.links.profiles import find_profile
from netem.virtual.clock import run_virtually

MOST_TOKENS = 240
PROMPTS = 6
"""Held-out prompts for code, which random schemas force into another form."""

_CLIENTS = 16
"""Ask at once where no speed is told: answers must not depend on who else is answered."""

_SLOW_LEVEL_S = STATED.times(4).draft_seconds
"""What a drafted level takes there: more drafts are late, and a run is done in a third of the time."""

Prompt = Sequence[int]


@dataclass(frozen=True, slots=True)
class SystemOnLink:
    """`schemas`: those of the random schemas that it answers. `is_timed`: the first of these and all prompts that ask
    for JSON are answered without a constraint too; needs the first schemas."""

    system: System
    link: str
    schemas: slice = field(default_factory=lambda: slice(None))
    is_timed: bool = False

    @property
    def name(self) -> str:
        return f"{self.system.name}, {self.link}"


@dataclass(frozen=True, slots=True)
class Load:
    """How many random `schemas` there are, and how many prompts that ask for JSON; as many of the others are timed."""

    schemas: int
    timed: int


@dataclass(frozen=True, slots=True)
class Case:
    """A schema, and the prompt that is answered under it."""

    schema: Schema
    prompt: Prompt

    @property
    def constraint(self) -> Constraint:
        return Constraint(Grammar.JSON_SCHEMA, json.dumps(self.schema))


@dataclass(frozen=True)
class CaseRun:
    """The answers to cases by their numbers, and to some of their prompts without a constraint."""

    constrained: Mapping[int, Answer]
    free: Mapping[int, Answer]

    @property
    def speed(self) -> float:
        """Tokens per second of the constrained answers to prompts that were answered without a constraint too."""
        return _speed([self.constrained[number] for number in self.free])

    @property
    def free_speed(self) -> float:
        return _speed(list(self.free.values()))


def _speed(answers: Sequence[Answer]) -> float:
    return combined([answer.stats for answer in answers]).tokens_per_second


@dataclass(frozen=True)
class SystemRun:
    """What one system answered to prompts that ask for the JSON of their schema, which none does that is not timed, and
    to prompts that ask for code."""

    asked: CaseRun
    forced: CaseRun

    @property
    def answers(self) -> Sequence[Answer]:
        return [
            answer
            for run in (self.asked, self.forced)
            for each in (run.constrained, run.free)
            for answer in each.values()
        ]


def asked_case(number: int, tokenizer: Tokenizer) -> Case:
    """A prompt that asks for the JSON of its schema."""
    prompt, schema = make_question(number)
    return Case(schema, chat_tokens(tokenizer, [{"role": "user", "content": prompt}]))


async def run_all(
    request: Request, systems: Sequence[SystemOnLink], load: Load, advance: Advance
) -> Mapping[str, SystemRun]:
    """By name, two at a time in processes of their own, as a pass computes with half of the cores."""
    with process_pool(2) as pool:
        names = {asyncio.wrap_future(pool.submit(run_system, request, each, load)): each.name for each in systems}
        waiting = set(names)
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=FIRST_COMPLETED)
            for each in done:
                each.result()  # raises
                advance(names[each], 1 - len(waiting) / len(names))
        return {name: each.result() for each, name in names.items()}


def run_system(request: Request, system: SystemOnLink, load: Load) -> SystemRun:
    testbed = _testbed(request)
    tokenizer, prompts = testbed.server.offer.tokenizer, testbed.prompts[CODE]
    timed = range(load.timed) if system.is_timed else range(0)
    asked = {number: asked_case(number, tokenizer) for number in timed}
    forced = {
        number: Case(make_schema(number), prompts[number % len(prompts)])
        for number in range(load.schemas)[system.schemas]
    }
    return SystemRun(*(run_cases(testbed, system, cases, timed) for cases in (asked, forced)))


@cache
def _testbed(request: Request) -> Testbed:
    """Once in each process."""
    return open_testbed(request, PROMPTS)


def run_cases(testbed: Testbed, on_link: SystemOnLink, cases: Mapping[int, Case], timed: Sequence[int]) -> CaseRun:
    """One client asks the timed questions one after the other, and again without a constraint, for at most as many
    tokens; then several clients ask the others."""
    system, rest = on_link.system, iter([number for number in cases if number not in timed])
    quick, slow = (system.options(MOST_TOKENS, level) for level in (STATED.draft_seconds, _SLOW_LEVEL_S))

    async def main() -> CaseRun:
        async with testbed.server.serve() as engine:

            async def ask(number: int, options: AnswerOptions) -> Answer:
                asker = Asker(testbed, engine, system, options)
                return await asker.ask(drawn(find_profile(on_link.link), number), cases[number].prompt)

            async def ask_the_rest() -> None:
                for number in rest:
                    constrained[number] = await ask(number, replace(slow, constraint=cases[number].constraint))

            constrained = {at: await ask(at, replace(quick, constraint=cases[at].constraint)) for at in timed}
            free = {at: await ask(at, replace(quick, max_new_tokens=len(constrained[at].tokens))) for at in timed}
            await asyncio.gather(*(ask_the_rest() for _ in range(_CLIENTS)))
            return CaseRun(constrained, free)

    return run_virtually(main())
