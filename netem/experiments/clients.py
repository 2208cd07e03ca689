"""`clients`: one server with eight clients at once: sessions per pass, throughput, and no token computed twice.

The same prompts are answered one after the other, and then at the same time; the answers must not differ.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from client.answer import Answer
from client.answering import AnswerOptions
from client.assembly import Client, client_for
from client.demo.asking import ask
from client.demo.comparison import is_identical
from client.demo.family import DemoModels, choose_prompts, find_family
from client.demo.systems_under_test import serving
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.stream import Access
from client.stats import combined
from common.address import parse_destination
from common.stated_costs import HALF_THE_CORES, STATED, overrun_faults, overrun_share
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.quiet import no_bar

CLIENTS = 8

_COSTS = STATED.times(2)
"""Two shared cores keep those of the other tables in too few passes of eight clients."""

HEADINGS = ("run", "clients", "tokens/s in all", "sessions per pass", "accept length", "recomputed", "late passes")

_ALONE = "one after the other"
_TOGETHER = "together"


@dataclass(frozen=True)
class ClientsRun:
    """clients: at the same time. seconds: of the whole run. counters: the server's."""

    clients: int
    answers: Sequence[Answer]
    seconds: float
    counters: Mapping[str, Any]

    @property
    def tokens_per_second(self) -> float:
        return sum(answer.stats.tokens for answer in self.answers) / self.seconds


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    prompts = choose_prompts(family.prompts, CLIENTS, request.seed)
    options = AnswerOptions(STREAM, 48 if request.quick else 160, idle="eager", pace=_COSTS.draft_seconds)
    runs = {}
    for index, (name, at_once) in enumerate({_ALONE: 1, _TOGETHER: len(prompts)}.items()):
        advance(name, index / 2)
        runs[name] = await _run(family, prompts, options, at_once)
    return make_report(runs)


async def _run(family: DemoModels, prompts: Sequence[str], options: AnswerOptions, at_once: int) -> ClientsRun:
    with TemporaryDirectory(prefix="outrider-lab-") as cache:
        async with serving(family, *_COSTS.server_arguments) as server:
            access = Access(parse_destination(await server.ready()))
            choice = DraftChoice("lookup", threads=HALF_THE_CORES)
            async with client_for(access, choice, Path(cache), no_bar) as client:
                turn = asyncio.Semaphore(at_once)
                begun = time.perf_counter()
                answers = await asyncio.gather(*(_ask_in_turn(client, prompt, options, turn) for prompt in prompts))
                seconds = time.perf_counter() - begun
    return ClientsRun(at_once, answers, seconds, server.summary())


async def _ask_in_turn(client: Client, prompt: str, options: AnswerOptions, turn: asyncio.Semaphore) -> Answer:
    async with turn:
        return await ask(client, prompt, options, client.load_drafter())


def make_report(runs: Mapping[str, ClientsRun]) -> Report:
    identical = is_identical([run.answers for run in runs.values()])
    recomputed = sum(run.counters["recomputed_tokens"] for run in runs.values())
    shares = {f"the run '{name}'": overrun_share(run.counters) for name, run in runs.items()}
    faults = overrun_faults(shares)
    if not identical:
        faults.append("the answers differ between the runs, which must never happen")
    if recomputed:
        faults.append(f"{recomputed} committed positions went through the target more than once")
    count = len(runs[_TOGETHER].answers)
    return Report(
        title=f"{count} clients on one server",
        headings=HEADINGS,
        rows=[_row(name, run) for name, run in runs.items()],
        remarks=(
            f"The same {count} held-out prompts in both runs, `lookup` drafters, `eager`. Answers identical: "
            f"{'yes' if identical else 'NO'}.",
            "Real time over loopback, all clients in one process beside the server. Stated costs, twice what they are "
            f"elsewhere: {_COSTS.in_words}.",
            "'recomputed' counts committed positions that went through the target more than once; 'late' passes took "
            "longer than their stated cost.",
        ),
        results={
            "stated_costs": asdict(_COSTS),
            "identical": identical,
            **{name: {"clients": run.clients, "seconds": run.seconds, **run.counters} for name, run in runs.items()},
        },
        faults=faults,
    )


def _row(name: str, run: ClientsRun) -> list[str]:
    return [
        name,
        str(run.clients),
        f"{run.tokens_per_second:.1f}",
        f"{run.counters['sessions_per_pass']:.2f}",
        f"{combined([answer.stats for answer in run.answers]).accept_length:.2f}",
        str(run.counters["recomputed_tokens"]),
        f"{overrun_share(run.counters):.1%}",
    ]
