"""`flapping`: whether answers end, and end as the uninterrupted ones, over links that are back for moments only.

On the virtual clock, which the real engine, sessions, link watch and conversations run on: the same seed gives the
same run. Every answer has a link of its own; many are made at a time on one server.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from client.answering import AnswerOptions
from client.demo.family import choose_prompts, find_family
from client.drafting.policies import STREAM
from client.link.offline import OfflineOptions
from client.text import chat_tokens
from common.drafters.drafter import Drafter
from common.drafters.lookup import LookupDrafter
from common.protocol.errors import OutriderError
from common.stated_costs import DRAFT_SECONDS, SERVER_LEVEL_MS, STATED
from netem.experiments.exactness import verdict
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.torture.fault_injector import BROKEN_OFF
from netem.experiments.torture.flapping_plan import Cut, Flap, draw_flap
from netem.experiments.torture.flapping_report import Batch, Ended, Setting, make_report
from netem.experiments.torture.plan import LONGEST, Question
from netem.experiments.torture.questions import REFERENCES, make_questions
from netem.experiments.torture.trial import Trial
from netem.virtual.clock import run_virtually
from netem.virtual.datacenter import Datacenter, open_datacenter
from netem.virtual.laptop import Draft, Laptops, converse
from netem.virtual.line import BreakingLine, Line
from server.engine import Engine
from server.events import Event, SessionOpened
from server.options import Pace

ANSWERS = 1000
QUICK_ANSWERS = 60
QUESTIONS = 80
QUICK_QUESTIONS = 10
TOGETHER = 20
LEASE_SECONDS = 120.0
"""As `outriderd` has it."""

IDLE = ("eager", "patient", "auto")
"""Policies of the server, in turn."""

_MODELLED = 4
"""One answer in so many is drafted by a model: what is measured needs drafts that are right at times, not the best."""

_SLOWER = 8
"""Times the stated costs, so that answers take long enough to be cut in their midst, mostly in a pass."""

COSTS = Pace(_SLOWER * STATED["pass_ms"] / 1000, per_level=_SLOWER * SERVER_LEVEL_MS / 1000)
LEVEL_SECONDS = _SLOWER * DRAFT_SECONDS

_PATIENT = OfflineOptions(limit_tokens=LONGEST, wait_s=3600.0)


class Returns:
    """Counts streams of sessions that were new to the server, and of those that it still held."""

    def __init__(self) -> None:
        self.new = self.resumed = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, SessionOpened):
            self.new += not event.resumed
            self.resumed += event.resumed


@dataclass(frozen=True)
class Field:
    """What every answer of a run stands on."""

    datacenter: Datacenter
    laptops: Laptops
    draft: str
    questions: Sequence[Question]

    def ask_all(self, flaps: Sequence[Flap], idle: str) -> Batch:
        """All at once on one server and a virtual clock of their own."""
        drafters = [self._drafter(flap) for flap in flaps]
        random.seed(flaps[0].link.seed)  # the pauses between attempts to come back are drawn

        async def main() -> Batch:
            returns = Returns()
            async with self.datacenter.serve(COSTS, lease_seconds=LEASE_SECONDS, on_event=returns) as engine:
                each = zip(flaps, drafters, strict=True)
                answers = await asyncio.gather(*(self._ask(engine, flap, drafter, idle) for flap, drafter in each))
                # What is left is what nobody can come back for any more, and whoever has not heard yet that it is over.
                await asyncio.sleep(2 * LEASE_SECONDS)
                sessions = engine.sessions
                left = {"sessions": len(sessions), "leases": sessions.away, "slots": sessions.held_slots}
                counters = engine.counters
                rebuilt = returns.new - len(flaps)
                return Batch(
                    flaps[0].cut, answers, returns.resumed, rebuilt, counters.recomputed_tokens, counters.passes, left
                )

        return run_virtually(main())

    async def _ask(self, engine: Engine, flap: Flap, drafter: Drafter, idle: str) -> Ended:
        question, trial = self.questions[flap.question], Trial()
        sampling = question.sampling
        options = AnswerOptions(STREAM, LONGEST, question.rule, idle=idle, sampling=sampling, pace=LEVEL_SECONDS)
        clock = asyncio.get_running_loop().time
        line = _line(engine, flap)
        talk = converse(engine, self.datacenter, line.stream(), options, drafter, line.dial, _PATIENT)
        ended = Ended(flap, question.rule, drafter.kind, BROKEN_OFF)
        try:
            answer = await talk.answer(
                question.reference.prompt, options.settings(), lambda committed, _: trial.show(committed, clock())
            )
        except OutriderError as error:
            return replace(ended, why=str(error))
        finally:
            talk.close()
        is_whole = answer.finish_reason in ("stop", "length")
        return replace(
            ended,
            verdict=verdict(question.reference, answer.tokens) if is_whole else BROKEN_OFF,
            why=answer.failure or answer.note or answer.finish_reason,
            retracted=trial.retracted(answer.tokens),
            reconnects=answer.stats.reconnects,
            seconds=answer.stats.seconds,
            tokens=answer.stats.tokens,
        )

    def _drafter(self, flap: Flap) -> Drafter:
        # Pairs of answers, because rules take turns.
        is_modelled = flap.index // 2 % _MODELLED == 0
        return self.laptops.drafter(Draft(self.draft)) if is_modelled else LookupDrafter()


def _line(engine: Engine, flap: Flap) -> Line:
    if flap.cut is Cut.SILENT:
        return Line(engine, flap.link)
    return BreakingLine(engine, flap.link, late=flap.cut is Cut.LATE)


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    count = QUICK_ANSWERS if request.quick else ANSWERS
    texts = choose_prompts(family.prompts, (QUICK_QUESTIONS if request.quick else QUESTIONS) // 2, request.seed)
    advance("loading", 0.0)
    field = await asyncio.to_thread(_open, family.target, family.draft, texts, request.seed, advance)
    batches: list[Batch] = []
    for number, first in enumerate(range(0, count, TOGETHER)):
        advance(f"{first} of {count} answers", REFERENCES + (1 - REFERENCES) * first / count)
        cut = tuple(Cut)[number % len(Cut)]
        indices = range(first, min(count, first + TOGETHER))
        flaps = [draw_flap(request.seed, index, len(field.questions), cut) for index in indices]
        idle = IDLE[number // len(Cut) % len(IDLE)]
        batches.append(await asyncio.to_thread(field.ask_all, flaps, idle))
    setting = Setting(TOGETHER, IDLE, LEASE_SECONDS, COSTS.per_pass, LEVEL_SECONDS)
    return make_report(batches, count, setting)


def _open(target: Path, draft: Path, texts: Sequence[str], seed: int, advance: Advance) -> Field:
    """Raises OutriderError where models do not fit together."""
    datacenter = open_datacenter(target, [draft])
    offer = datacenter.offer
    prompts = [chat_tokens(offer.tokenizer, [{"role": "user", "content": text}]) for text in texts]
    ends, context = tuple(offer.card.end_tokens), datacenter.offer.card.context
    questions = make_questions(target, prompts, ends, context, seed, advance)
    return Field(datacenter, Laptops(datacenter), draft.name, questions)
