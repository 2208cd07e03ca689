"""`reconnect`: how many provisional tokens survive an outage in mid-answer, by how long it lasts and what drafts."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from client.answer import Answer
from client.answering import AnswerOptions
from client.drafting.policies import STREAM
from client.link.offline import OfflineOptions
from client.text import chat_tokens
from common.protocol.errors import MisuseError, OutriderError
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.offline.reconnect_report import Absence, make_report
from netem.experiments.offline.screen import Bounds, Outage, Picture, watch_outage
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths
from netem.experiments.one_device.costs import level_seconds
from netem.experiments.one_device.prompts import choose
from netem.experiments.speed.runs import CODE, drawn, fault_of
from netem.links.outages import Outages
from netem.links.profile import LinkProfile
from netem.links.profiles import find_profile
from netem.virtual.client import DraftSetup, LoadedDrafts, converse
from netem.virtual.clock import run_virtually
from netem.virtual.link import VirtualLink
from netem.virtual.server import VirtualServer, load_virtual_server

LINK = "4g"
IDLE = "eager"
LEASE_SECONDS = 120.0
"""As `outriderd` has it."""

_ALL = 1000  # prompts, more than there are

OFFLINE = OfflineOptions(wait_s=60.0)
"""Longer than the longest outage: what is measured is what comes of waiting."""


@dataclass(frozen=True)
class Extent:
    """Outages of so many seconds, each behind so many tokens as `moments` says, of answers to `prompts` that have
    `least` to `most` tokens."""

    prompts: int
    least: int
    most: int
    moments: tuple[int, ...]
    outages: tuple[float, ...]


FULL = Extent(2, least=120, most=384, moments=(10, 25, 50), outages=(0.5, 1, 2, 5, 10, 30))
QUICK = Extent(1, least=120, most=384, moments=(25,), outages=(0.5, 2, 10))


@dataclass(frozen=True)
class Shown:
    """An answer, and what the screen showed of it."""

    answer: Answer
    pictures: tuple[Picture, ...]

    def at(self, tokens: int) -> float:
        """When so many tokens were final."""
        return next(picture.at for picture in self.pictures if picture.final >= tokens)


@dataclass(frozen=True)
class Field:
    """What every answer of a run stands on."""

    server: VirtualServer
    loaded_drafts: LoadedDrafts

    def ask(self, compared: ComparedDraft, link: LinkProfile, prompt: Sequence[int], most: int) -> Shown:
        """On a virtual clock of its own. Raises OutriderError where the answer is not sound."""
        layers = len(self.server.target.model.pool.keys_SX)
        pace = level_seconds(compared.depth, layers)
        options = AnswerOptions(STREAM, most, idle=IDLE, pace=pace)
        drafter = self.loaded_drafts.drafter(DraftSetup(_name(compared), compared.depth))
        random.seed(f"{link.seed} {link.outages.gaps}")  # the pauses between attempts to come back are drawn

        async def main() -> Shown:
            clock = asyncio.get_running_loop().time
            pictures = [Picture(clock(), 0, ())]

            def watch(committed: Sequence[int], provisional: Sequence[int]) -> None:
                pictures.append(Picture(clock(), pictures[-1].final + len(committed), tuple(provisional)))

            async with self.server.serve(lease_seconds=LEASE_SECONDS) as engine:
                virtual_link = VirtualLink(engine, link)
                conversation = converse(
                    engine, self.server, virtual_link.stream(), options, drafter, virtual_link.dial, OFFLINE
                )
                answer = await conversation.answer(prompt, options.settings(), watch)
                conversation.close()
                return Shown(answer, tuple(pictures))

        shown = run_virtually(main())
        if fault := fault_of(shown.answer):
            raise OutriderError(f"{compared.name}: {fault}")
        return shown


def open_field(target: Path, drafts: Sequence[ComparedDraft]) -> Field:
    """Raises OutriderError where models do not fit together."""
    directories = dict.fromkeys(each.directory for each in drafts if each.directory is not None)
    server = load_virtual_server(target, list(directories))
    return Field(server, LoadedDrafts(server))


async def measure(request: Request, advance: Advance) -> Report:
    """Raises MisuseError where no answer is long enough."""
    extent = QUICK if request.quick else FULL
    paths, drafts = find_model_paths(request), find_drafts(request)
    advance("loading", 0.0)
    field = await asyncio.to_thread(open_field, paths.target, drafts)
    tokenizer = field.server.offer.tokenizer
    texts = [prompt.text for prompt in choose(paths.prompts, _ALL, request.seed)[CODE]]
    prompts = [chat_tokens(tokenizer, [{"role": "user", "content": text}]) for text in texts]
    chosen = await asyncio.to_thread(long_enough, field, drafts[0], prompts, extent)
    absences: list[Absence] = []
    for number, prompt in enumerate(chosen):
        for place, compared in enumerate(drafts):
            advance(compared.name, (number + place / len(drafts)) / len(chosen))
            link = drawn(find_profile(LINK), number)
            absences += await asyncio.to_thread(go_away, field, compared, link, prompt, extent)
    return make_report(absences, find_profile(LINK), len(chosen), extent.moments, OFFLINE, IDLE)


def long_enough(
    field: Field, compared: ComparedDraft, prompts: Sequence[Sequence[int]], extent: Extent
) -> list[Sequence[int]]:
    """The first prompts whose answers are."""
    chosen: list[Sequence[int]] = []
    for prompt in prompts:
        if len(chosen) == extent.prompts:
            break
        shown = field.ask(compared, find_profile(LINK), prompt, extent.most)
        if len(shown.answer.tokens) >= extent.least:
            chosen.append(prompt)
    if not chosen:
        raise MisuseError(f"the target answers none of these prompts in {extent.least} tokens or more")
    return chosen


def go_away(
    field: Field, compared: ComparedDraft, link: LinkProfile, prompt: Sequence[int], extent: Extent
) -> list[Absence]:
    """One answer without any outage, and again with each."""
    whole = field.ask(compared, link, prompt, extent.most)
    found = []
    for moment in extent.moments:
        for lasts in extent.outages:
            outage = Outage(whole.at(moment), whole.at(moment) + lasts)
            gone = replace(link, outages=Outages(((outage.begins, outage.ends),)))
            shown = field.ask(compared, gone, prompt, extent.most)
            tokens, ends = shown.answer.tokens, frozenset(field.server.offer.card.end_tokens)
            seen = watch_outage(shown.pictures, tokens, outage, ends, Bounds(OFFLINE.limit_tokens, extent.most))
            identical = tokens == whole.answer.tokens
            found.append(Absence(compared.name, lasts, seen, shown.answer.stats.reconnects, identical))
    return found


def _name(compared: ComparedDraft) -> str:
    return compared.kind.name if compared.directory is None else compared.directory.name
