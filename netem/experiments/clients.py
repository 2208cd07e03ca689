"""`clients`: what one server does with eight clients at once: sessions per pass, speed for all, nothing twice.

The same prompts are answered alone, one after the other, and then together; the texts must not differ.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from client.answering import AnswerOptions
from client.assembly import Client, DraftChoice, client_for
from client.conversation import Answer
from client.demo.costs import HALF_THE_CORES, SERVER_ARGUMENTS, STATED, overrun_share
from client.demo.family import choose_prompts, find_family
from client.demo.processes import serving
from client.link import Access
from client.policies import STREAM
from client.text import chat_tokens
from common.address import parse_destination
from common.drafters.drafter import Drafter
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.quiet import no_bar

CLIENTS = 8
HEADINGS = ("run", "clients", "tokens/s in all", "sessions per pass", "accept length", "recomputed", "overrun")


@dataclass(frozen=True)
class Run:
    answers: list[Answer]
    seconds: float
    counters: dict[str, Any]


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    prompts = choose_prompts(family.prompts, CLIENTS, request.seed)
    longest = 48 if request.quick else 160
    models = ("--target", str(family.target), "--draft", str(family.draft), "--threads", str(HALF_THE_CORES))
    runs: dict[str, Run] = {}
    for index, (name, at_once) in enumerate({"one after the other": 1, "together": CLIENTS}.items()):
        advance(name, index / 2)
        async with AsyncExitStack() as stack:
            cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
            arguments = ("serve", *models, "--listen", "127.0.0.1:0", *SERVER_ARGUMENTS)
            async with serving("outriderd", *arguments) as server:
                access = Access(parse_destination(server.address))
                async with client_for(access, DraftChoice("lookup", threads=HALF_THE_CORES), cache, no_bar) as client:
                    answers, seconds = await _answer_all(client, prompts, longest, at_once)
            runs[name] = Run(answers, seconds, server.summary())
    return _report(runs)


async def _answer_all(client: Client, prompts: list[str], longest: int, at_once: int) -> tuple[list[Answer], float]:
    turn = asyncio.Semaphore(at_once)
    begun = time.perf_counter()
    answers = await asyncio.gather(*(_ask(client, prompt, longest, turn) for prompt in prompts))
    return answers, time.perf_counter() - begun


async def _ask(client: Client, prompt: str, longest: int, turn: asyncio.Semaphore) -> Answer:
    tokens = chat_tokens(client.tokenizer, [{"role": "user", "content": prompt}])
    settings = AnswerOptions(STREAM, longest, idle="eager").settings()
    async with turn:
        drafter: Drafter = client.load_drafter()
        async with client.converse(STREAM, drafter) as conversation:
            return await conversation.answer(tokens, settings, lambda committed, provisional: None)


def _report(runs: dict[str, Run]) -> Report:
    texts = [[answer.tokens for answer in run.answers] for run in runs.values()]
    identical = all(text == texts[0] for text in texts)
    recomputed = sum(run.counters["recomputed_tokens"] for run in runs.values())
    return Report(
        title="Eight clients on one server",
        headings=HEADINGS,
        rows=[_row(name, run) for name, run in runs.items()],
        remarks=(
            f"The same {CLIENTS} held-out prompts in both runs, `lookup` drafters, `eager`, loopback; stated costs of "
            f"a pass: 30 ms and 0.1 ms per token. Answers identical: {'yes' if identical else 'NO'}.",
            "'recomputed' counts committed positions that went through the target more than once.",
        ),
        results={
            "stated_costs": STATED,
            "identical": identical,
            **{name: {"seconds": run.seconds, **run.counters} for name, run in runs.items()},
        },
        draw=lambda axes: _draw(axes, runs),
        valid=identical and not recomputed,
    )


def _speed(run: Run) -> float:
    return sum(answer.stats.tokens for answer in run.answers) / run.seconds


def _row(name: str, run: Run) -> list[str]:
    tokens = sum(answer.stats.tokens for answer in run.answers)
    passes = sum(answer.stats.passes for answer in run.answers)
    return [
        name,
        "1" if name == "one after the other" else str(CLIENTS),
        f"{_speed(run):.1f}",
        f"{run.counters['sessions_per_pass']:.2f}",
        f"{tokens / passes:.2f}",
        str(run.counters["recomputed_tokens"]),
        f"{100 * overrun_share(run.counters):.1f}%",
    ]


def _draw(axes: Any, runs: dict[str, Run]) -> None:
    axes.bar_label(axes.bar(list(runs), [_speed(run) for run in runs.values()], 0.5), fmt="%.0f")
    axes.set_ylabel("committed tokens per second, all clients")
    axes.spines[["top", "right"]].set_visible(False)
