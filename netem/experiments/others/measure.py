"""`beside-others`: Outrider beside llama.cpp's server with a draft model and transformers' assisted generation.

The same weights, prompts and emulated links; every answer is streamed to a client behind the link. And the same at the
stated costs, where Outrider's are on the virtual clock and the others' are computed.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from client.answer import Answer
from client.demo.comparison import rotations
from client.text import chat_tokens
from common.models.checkpoint import load_causal_lm, load_tokenizer
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.compared_drafts import find_model_paths
from netem.experiments.one_device.prompts import choose
from netem.experiments.others.completions import CompletionServer, client_of
from netem.experiments.others.gguf_file import write_gguf
from netem.experiments.others.heard import Heard, OtherSystem
from netem.experiments.others.llama_server import find_llama_server, version_of
from netem.experiments.others.other_servers import LlamaDraft, llama_command, running_server
from netem.experiments.others.outages import FOR_GOOD, BrokenAnswer, break_link
from netem.experiments.others.report import Measured, make_report
from netem.experiments.others.systems import (
    ASSISTED,
    EAGER_MOA,
    LLAMA_DRAFTED,
    OTHERS,
    OURS,
    READ_TIMEOUT_S,
    ComparedModels,
    LinkedSystem,
    linked_systems,
    running_servers,
)
from netem.experiments.references import Reference, reference_answer
from netem.experiments.speed.runs import fault_of, run_alone
from netem.experiments.speed.systems import CLOUD_DECODING, System
from netem.experiments.speed.testbed import open_testbed
from netem.links.profiles import find_profile
from server.models.target_card import read_card

OUTAGE_LINK = "4g"
BROKEN = (LLAMA_DRAFTED, ASSISTED, CLOUD_DECODING.name, EAGER_MOA)
"""The systems whose link is broken."""

_DRAFT = "independent"
_WARM_UP_TOKENS = 4  # so that nobody pays for a first pass
_SWEPT = (3, 8, 16)
"""Tokens that llama.cpp drafts for a pass at most: its default, and more."""


@dataclass(frozen=True)
class OthersWorkload:
    """`prompts` of each category on each of `links`, answers of at most `tokens`; and `broken_prompts` whose link is
    cut after `cut_after` tokens for each of `outages_s`."""

    links: Sequence[str]
    prompts: int
    tokens: int
    broken_prompts: int
    cut_after: int
    outages_s: Sequence[float]


FULL = OthersWorkload(("5g", "4g", "satellite"), 2, 128, 3, 10, (3.0, 8.0, FOR_GOOD))
QUICK = OthersWorkload(("4g",), 1, 48, 1, 10, (1.0,))


@dataclass(frozen=True)
class Asked:
    """The prompts as token ids, with transformers' own answers to them."""

    references: Sequence[Reference]
    end_tokens: frozenset[int]

    @property
    def prompts(self) -> list[Sequence[int]]:
        return [reference.prompt for reference in self.references]


def models(request: Request) -> Mapping[str, Path]:
    """The target and the draft models that a run loads, by the names of their folders. Raises MisuseError."""
    paths = find_model_paths(request)
    names = dict.fromkeys(system.draft.name for system in OURS.values() if system.draft)
    return {"target": paths.target, **{name: paths.folder / name for name in names}}


async def measure(request: Request, advance: Advance) -> Report:
    """Raises MisuseError where llama.cpp's server is missing."""
    program = find_llama_server(request.llama_server)
    workload = QUICK if request.quick else FULL
    advance("reference answers", 0.0)
    asked = await asyncio.to_thread(_ask_generate, request, workload)
    target, *drafts = models(request).values()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-others-")))
        found = ComparedModels(
            target, models(request)[_DRAFT], drafts, program, folder / "target.gguf", folder / "draft.gguf"
        )
        await asyncio.to_thread(write_gguf, found.target, found.target_gguf)
        await asyncio.to_thread(write_gguf, found.draft, found.draft_gguf)
        sweep = await _sweep(found, asked.prompts, workload, advance)
        most = max(sweep, key=lambda drafted: sweep[drafted])
        servers = await stack.enter_async_context(running_servers(found, most))
        own: dict[str, dict[str, list[Heard]]] = {}
        broken: dict[str, list[BrokenAnswer]] = {}
        for number, link in enumerate(workload.links):
            advance(f"{link}, at their own speed", 0.1 + 0.6 * number / len(workload.links))
            async with linked_systems(servers, link, (*OTHERS, *OURS), folder) as systems:
                own[link] = await _take_turns(systems, asked.prompts, workload.tokens)
        advance("outages", 0.7)
        async with linked_systems(servers, OUTAGE_LINK, BROKEN, folder) as systems:
            broken = await _break_all(systems, asked, workload)
    advance("at stated costs", 0.8)
    stated = await asyncio.to_thread(_simulate, request, workload, asked.prompts)
    return make_report(
        Measured(own, stated, broken, sweep, [*asked.references], asked.end_tokens),
        workload.tokens,
        workload.cut_after,
        READ_TIMEOUT_S,
        version_of(program),
    )


def _ask_generate(request: Request, workload: OthersWorkload) -> Asked:
    """The prompts in turn by category, and transformers' answers."""
    paths = find_model_paths(request)
    tokenizer = load_tokenizer(paths.target)
    end_tokens = read_card("target", paths.target, tokenizer).end_tokens
    chosen = choose(paths.prompts, workload.prompts, request.seed)
    texts = [
        prompt.text for index in range(workload.prompts) for each in chosen.values() for prompt in each[index:][:1]
    ]
    target: Any = load_causal_lm(paths.target)
    references = [
        reference_answer(
            target, chat_tokens(tokenizer, [{"role": "user", "content": text}]), end_tokens, workload.tokens
        )
        for text in texts
    ]
    return Asked(references, frozenset(end_tokens))


async def _sweep(
    found: ComparedModels, prompts: Sequence[Sequence[int]], workload: OthersWorkload, advance: Advance
) -> dict[int, float]:
    """llama.cpp's tokens per second without a link, by how many tokens it drafts for a pass at most; in turns too."""
    advance("how many tokens llama-server drafts", 0.05)
    heard: dict[int, list[Heard]] = {most: [] for most in _SWEPT}
    async with AsyncExitStack() as stack:
        systems = {}
        for most in _SWEPT:
            command = llama_command(found.program, found.target_gguf, LlamaDraft(found.draft_gguf, most))
            address = await stack.enter_async_context(running_server(command))
            systems[most] = CompletionServer(await stack.enter_async_context(client_of(address, READ_TIMEOUT_S)))
        for prompt in prompts:
            for most, system in systems.items():
                heard[most].append(await _answer(system, prompt, workload.tokens))
    return {
        most: sum(len(each.tokens) for each in answers) / sum(each.seconds for each in answers)
        for most, answers in heard.items()
    }


def _simulate(
    request: Request, workload: OthersWorkload, prompts: Sequence[Sequence[int]]
) -> dict[str, dict[str, list[Heard]]]:
    """Outrider's systems at the stated costs, by link."""
    testbed = open_testbed(request, workload.prompts)

    def ask(link: str, system: System) -> list[Heard]:
        run = run_alone(testbed, find_profile(link), system, prompts, workload.tokens)
        return [_heard(timed.answer) for timed in run.answers]

    return {link: {name: ask(link, system) for name, system in OURS.items()} for link in workload.links}


def _heard(answer: Answer) -> Heard:
    """An answer on the virtual clock; as if all of it had come with its first token, which changes no speed."""
    stats = answer.stats
    return Heard(
        lambda: 0.0,
        [(stats.ttft_seconds, answer.tokens)],
        passes=stats.passes,
        drafted=answer.levels,
        error=fault_of(answer),
        end=answer.finish_reason,
        seconds=stats.seconds,
    )


async def _answer(system: OtherSystem, prompt: Sequence[int], new_tokens: int) -> Heard:
    await system.connect()
    heard = Heard(time.perf_counter)
    await system.ask(prompt, new_tokens, heard)
    return heard


async def _take_turns(
    systems: Mapping[str, LinkedSystem], prompts: Sequence[Sequence[int]], new_tokens: int
) -> dict[str, list[Heard]]:
    """Every system answers every prompt, one after the other, in another order for each prompt."""
    given: dict[str, list[Heard]] = {name: [] for name in systems}
    for linked in systems.values():
        await _answer(linked.system, prompts[0], _WARM_UP_TOKENS)
    for prompt, order in zip(prompts, rotations(tuple(systems), len(prompts)), strict=True):
        for name in order:
            given[name].append(await _answer(systems[name].system, prompt, new_tokens))
    return given


async def _break_all(
    systems: Mapping[str, LinkedSystem], asked: Asked, workload: OthersWorkload
) -> dict[str, list[BrokenAnswer]]:
    """Of all systems at once, for their outages last seconds; prompts with the longest answers."""
    longest = sorted(asked.references, key=lambda reference: -len(reference.answer))[: workload.broken_prompts]

    async def break_one(linked: LinkedSystem) -> list[BrokenAnswer]:
        return [
            await break_link(linked, reference, workload.tokens, workload.cut_after, lasted_s)
            for lasted_s in workload.outages_s
            for reference in longest
        ]

    given = await asyncio.gather(*map(break_one, systems.values()))
    return dict(zip(systems, given, strict=True))
