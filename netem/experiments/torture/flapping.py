"""`flapping`: whether answers end, and equal the uninterrupted ones, over links that carry for moments only.

The real engine, sessions, link watch and conversations run on the virtual clock: the same seed gives the same run.
Every answer has a link of its own; many are made at the same time on one server.
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
from common.stated_costs import STATED
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.references import ReferenceQuestion, make_reference_questions
from netem.experiments.torture.answer_record import FaultRecord
from netem.experiments.torture.flapping_plan import Disconnection, FlappingLink, draw_flapping_link
from netem.experiments.torture.flapping_report import FlappingAnswer, FlappingBatch, FlappingSetting, make_report
from netem.experiments.torture.outcome import MAX_NEW_TOKENS, judged
from netem.experiments.torture.plan import REFERENCES_SHARE
from netem.virtual.client import DraftSetup, LoadedDrafts, converse
from netem.virtual.clock import run_virtually
from netem.virtual.link import BreakingLink, VirtualLink
from netem.virtual.server import VirtualServer, load_virtual_server
from server.engine import Engine
from server.events import Event, SessionOpened
from server.options import Pace

ANSWERS = 1000
QUICK_ANSWERS = 60
QUESTIONS = 80
QUICK_QUESTIONS = 10
TOGETHER = 20
LEASE_SECONDS = 120.0
"""The default of `outriderd`."""

IDLE = ("eager", "patient", "auto")
"""Idle policies of the server, in turn."""

_ONE_IN_MODELLED = 4
"""One answer in so many is drafted by a draft model; `lookup`, which is right sometimes, is enough for the others."""

COSTS = STATED.times(8)
"""So high that most interruptions happen in mid-answer, and in a pass."""

PACE = Pace(COSTS.pass_ms / 1000, per_level=COSTS.server_level_ms / 1000)  # tokens cost nothing

_PATIENT = OfflineOptions(limit_tokens=MAX_NEW_TOKENS, wait_s=3600.0)


class StreamCounter:
    """Counts the streams of sessions that were new to the server, and of those that it still held."""

    def __init__(self) -> None:
        self.new = self.resumed = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, SessionOpened):
            self.new += not event.resumed
            self.resumed += event.resumed


@dataclass(frozen=True)
class FlappingTestbed:
    """Models that are loaded once, and the questions of all answers."""

    server: VirtualServer
    loaded_drafts: LoadedDrafts
    draft: str
    questions: Sequence[ReferenceQuestion]

    def answer_all(self, links: Sequence[FlappingLink], idle: str) -> FlappingBatch:
        """Makes all answers at the same time, on one server and a new virtual clock."""
        drafters = [self._drafter(link) for link in links]
        random.seed(links[0].profile.seed)  # of the pauses between attempts to reconnect

        async def main() -> FlappingBatch:
            counted = StreamCounter()
            async with self.server.serve(PACE, lease_seconds=LEASE_SECONDS, on_event=counted) as engine:
                each = zip(links, drafters, strict=True)
                answers = await asyncio.gather(*(self._answer(engine, link, drafter, idle) for link, drafter in each))
                # Until every lease has expired and every end of a stream has reached the server.
                await asyncio.sleep(2 * LEASE_SECONDS)
                sessions = engine.sessions
                left = {"sessions": len(sessions), "leases": sessions.away, "slots": sessions.held_slots}
                counters = engine.counters
                rebuilt = counted.new - len(links)
                return FlappingBatch(
                    links[0].disconnection,
                    answers,
                    counted.resumed,
                    rebuilt,
                    counters.recomputed_tokens,
                    counters.passes,
                    left,
                )

        return run_virtually(main())

    async def _answer(self, engine: Engine, link: FlappingLink, drafter: Drafter, idle: str) -> FlappingAnswer:
        question, record = self.questions[link.question], FaultRecord()
        sampling = question.sampling
        options = AnswerOptions(
            STREAM, MAX_NEW_TOKENS, question.rule, idle=idle, sampling=sampling, pace=COSTS.draft_seconds
        )
        clock = asyncio.get_running_loop().time
        virtual_link = _virtual_link(engine, link)
        conversation = converse(
            engine, self.server, virtual_link.stream(), options, drafter, virtual_link.dial, _PATIENT
        )
        outcome = FlappingAnswer(link.index, question.rule, drafter.kind, link=link)
        try:
            answer = await conversation.answer(
                question.reference.prompt, options.settings(), lambda committed, _: record.committed(committed, clock())
            )
        except OutriderError as error:
            return replace(outcome, why=str(error))
        finally:
            conversation.close()
        return replace(
            judged(outcome, question.reference, answer, record),
            seconds=answer.stats.seconds,
            tokens=answer.stats.tokens,
        )

    def _drafter(self, link: FlappingLink) -> Drafter:
        # By pairs of answers, because rules take turns.
        is_modelled = link.index // 2 % _ONE_IN_MODELLED == 0
        return self.loaded_drafts.drafter(DraftSetup(self.draft)) if is_modelled else LookupDrafter()


def _virtual_link(engine: Engine, link: FlappingLink) -> VirtualLink:
    if link.disconnection is Disconnection.SILENT:
        return VirtualLink(engine, link.profile)
    return BreakingLink(engine, link.profile, late=link.disconnection is Disconnection.LATE)


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    count = QUICK_ANSWERS if request.quick else ANSWERS
    texts = choose_prompts(family.prompts, (QUICK_QUESTIONS if request.quick else QUESTIONS) // 2, request.seed)
    advance("loading", 0.0)
    testbed = await asyncio.to_thread(_open_testbed, family.target, family.draft, texts, request.seed, advance)
    batches: list[FlappingBatch] = []
    for number, first in enumerate(range(0, count, TOGETHER)):
        advance(f"{first} of {count} answers", REFERENCES_SHARE + (1 - REFERENCES_SHARE) * first / count)
        disconnection = tuple(Disconnection)[number % len(Disconnection)]
        indices = range(first, min(count, first + TOGETHER))
        links = [draw_flapping_link(request.seed, index, len(testbed.questions), disconnection) for index in indices]
        idle = IDLE[number // len(Disconnection) % len(IDLE)]
        batches.append(await asyncio.to_thread(testbed.answer_all, links, idle))
    setting = FlappingSetting(TOGETHER, IDLE, LEASE_SECONDS, PACE.per_pass, COSTS.draft_seconds)
    return make_report(batches, count, setting)


def _open_testbed(target: Path, draft: Path, texts: Sequence[str], seed: int, advance: Advance) -> FlappingTestbed:
    """Loads the models. Raises OutriderError where they do not fit together."""
    server = load_virtual_server(target, [draft])
    offer = server.offer
    room_tokens = offer.card.context - MAX_NEW_TOKENS
    prompts = [chat_tokens(offer.tokenizer, [{"role": "user", "content": text}])[-room_tokens:] for text in texts]
    end_tokens = tuple(offer.card.end_tokens)
    questions = make_reference_questions(target, prompts, end_tokens, MAX_NEW_TOKENS, seed, advance, REFERENCES_SHARE)
    return FlappingTestbed(server, LoadedDrafts(server), draft.name, questions)
