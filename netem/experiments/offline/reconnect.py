"""`reconnect`: how many provisional tokens survive an outage in mid-answer, by its length and by draft model."""

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
from netem.experiments.offline.reconnect_report import OutageResult, make_report
from netem.experiments.offline.screen import LengthLimits, Outage, ScreenState, watch_outage
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
"""The default of `outriderd`."""

_ALL = 1000  # more than there are prompts

OFFLINE = OfflineOptions(wait_s=60.0)
"""Patience longer than the longest outage, so that every answer waits for the link."""


@dataclass(frozen=True)
class ReconnectWorkload:
    """An outage of each of `outages` seconds after each of `moments` tokens, in answers of `least` to `most` tokens to
    each of `prompts`."""

    prompts: int
    least: int
    most: int
    moments: tuple[int, ...]
    outages: tuple[float, ...]


FULL = ReconnectWorkload(2, least=120, most=384, moments=(10, 25, 50), outages=(0.5, 1, 2, 5, 10, 30))
QUICK = ReconnectWorkload(1, least=120, most=384, moments=(25,), outages=(0.5, 2, 10))


@dataclass(frozen=True)
class WatchedAnswer:
    """An answer, and the states of the screen over time."""

    answer: Answer
    states: tuple[ScreenState, ...]

    def at(self, tokens: int) -> float:
        """The time at which so many tokens were final."""
        return next(picture.at for picture in self.states if picture.final >= tokens)


@dataclass(frozen=True)
class OutageTestbed:
    """Models that are loaded once for all answers."""

    server: VirtualServer
    loaded_drafts: LoadedDrafts

    def ask(self, draft: ComparedDraft, link: LinkProfile, prompt: Sequence[int], most: int) -> WatchedAnswer:
        """The answer on a new virtual clock. Raises OutriderError where it is incomplete or its drafter failed."""
        layers = len(self.server.target.model.pool.keys_KSD)
        pace = level_seconds(draft.depth, layers, draft.forwards)
        options = AnswerOptions(STREAM, most, idle=IDLE, pace=pace)
        first, *beside = [DraftSetup(_name(each), each.depth) for each in draft.members]
        drafter = self.loaded_drafts.drafter(first, tuple(beside))
        random.seed(f"{link.seed} {link.outages.gaps}")  # of the pauses between attempts to reconnect

        async def main() -> WatchedAnswer:
            clock = asyncio.get_running_loop().time
            states = [ScreenState(clock(), 0, ())]

            def watch(committed: Sequence[int], provisional: Sequence[int]) -> None:
                states.append(ScreenState(clock(), states[-1].final + len(committed), tuple(provisional)))

            async with self.server.serve(lease_seconds=LEASE_SECONDS) as engine:
                virtual_link = VirtualLink(engine, link)
                conversation = converse(
                    engine, self.server, virtual_link.stream(), options, drafter, virtual_link.dial, OFFLINE
                )
                answer = await conversation.answer(prompt, options.settings(), watch)
                conversation.close()
                return WatchedAnswer(answer, tuple(states))

        watched = run_virtually(main())
        if fault := fault_of(watched.answer):
            raise OutriderError(f"{draft.name}: {fault}")
        return watched


def open_testbed(target: Path, drafts: Sequence[ComparedDraft]) -> OutageTestbed:
    """Loads the models. Raises OutriderError where they do not fit together."""
    members = [member for draft in drafts for member in draft.members]
    directories = dict.fromkeys(each.directory for each in members if each.directory is not None)
    server = load_virtual_server(target, list(directories))
    return OutageTestbed(server, LoadedDrafts(server))


async def measure(request: Request, advance: Advance) -> Report:
    """Raises MisuseError where no answer is long enough."""
    workload = QUICK if request.quick else FULL
    paths, drafts = find_model_paths(request), find_drafts(request)
    advance("loading", 0.0)
    testbed = await asyncio.to_thread(open_testbed, paths.target, drafts)
    tokenizer = testbed.server.offer.tokenizer
    texts = [prompt.text for prompt in choose(paths.prompts, _ALL, request.seed)[CODE]]
    prompts = [chat_tokens(tokenizer, [{"role": "user", "content": text}]) for text in texts]
    chosen = await asyncio.to_thread(long_enough, testbed, drafts[0], prompts, workload)
    results: list[OutageResult] = []
    for number, prompt in enumerate(chosen):
        for index, draft in enumerate(drafts):
            advance(draft.name, (number + index / len(drafts)) / len(chosen))
            link = drawn(find_profile(LINK), number)
            results += await asyncio.to_thread(measure_outages, testbed, draft, link, prompt, workload)
    return make_report(results, find_profile(LINK), len(chosen), workload.moments, OFFLINE, IDLE)


def long_enough(
    testbed: OutageTestbed, draft: ComparedDraft, prompts: Sequence[Sequence[int]], workload: ReconnectWorkload
) -> list[Sequence[int]]:
    """The first prompts whose answers are long enough."""
    chosen: list[Sequence[int]] = []
    for prompt in prompts:
        if len(chosen) == workload.prompts:
            break
        watched = testbed.ask(draft, find_profile(LINK), prompt, workload.most)
        if len(watched.answer.tokens) >= workload.least:
            chosen.append(prompt)
    if not chosen:
        raise MisuseError(f"the target answers none of these prompts in {workload.least} tokens or more")
    return chosen


def measure_outages(
    testbed: OutageTestbed, draft: ComparedDraft, link: LinkProfile, prompt: Sequence[int], workload: ReconnectWorkload
) -> list[OutageResult]:
    """Makes one answer without an outage, and again with each outage."""
    whole = testbed.ask(draft, link, prompt, workload.most)
    found = []
    for moment in workload.moments:
        for lasts in workload.outages:
            outage = Outage(whole.at(moment), whole.at(moment) + lasts)
            gone = replace(link, outages=Outages(((outage.begins, outage.ends),)))
            watched = testbed.ask(draft, gone, prompt, workload.most)
            tokens, ends = watched.answer.tokens, frozenset(testbed.server.offer.card.end_tokens)
            observed = watch_outage(
                watched.states, tokens, outage, ends, LengthLimits(OFFLINE.limit_tokens, workload.most)
            )
            identical = tokens == whole.answer.tokens
            found.append(OutageResult(draft.name, lasts, observed, watched.answer.stats.reconnects, identical))
    return found


def _name(draft: ComparedDraft) -> str:
    return draft.kind.name if draft.directory is None else draft.directory.name
