"""`load-timed`: one server with many clients in real time, each pass and level at the speed of this machine.

Server and links are processes, and clients share this one. Whatever draft models lie beside the target say which
systems can run: without any, cloud decoding alone.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from client.answer import Answer
from client.demo.comparison import is_identical
from client.stats import combined, per
from client.text import chat_tokens
from common.counted import counted
from common.models.checkpoint import load_tokenizer
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.compared_drafts import find_model_paths
from netem.experiments.one_device.computing import device_name, half_on_gpu
from netem.experiments.one_device.prompts import choose
from netem.experiments.speed.real import start_system
from netem.experiments.speed.runs import fault_of, latency_in_words, quantile
from netem.experiments.speed.systems import AUTO, CLOUD_DECODING, COLOCATED, EAGER, LOCKSTEP_MOA, MOA
from netem.experiments.speed.testbed import models
from netem.links.backends import choose_backend
from server.options import Pace

LINK = "4g"
_DRAFTING = (COLOCATED, LOCKSTEP_MOA, EAGER, AUTO)
HEADINGS = (
    *("clients", "system", "tokens/s of a client", "x cloud", "tokens/s of all", "x cloud"),
    *("seconds of an answer, mean / p95", "passes per token"),
)


@dataclass(frozen=True)
class TimedWorkload:
    """Every number of clients at once, each with `prompts` one after the other, answered with at most `tokens`."""

    clients: Sequence[int]
    prompts: int
    tokens: int


FULL = TimedWorkload((1, 2, 4, 8, 16), prompts=2, tokens=64)
QUICK = TimedWorkload((1, 2), prompts=1, tokens=24)


@dataclass(frozen=True)
class TimedLoad:
    """seconds: from the first question to the end of the last answer."""

    clients: int
    answers: Sequence[Answer]
    seconds: float

    @property
    def latencies(self) -> list[float]:
        return [answer.stats.seconds for answer in self.answers]

    def as_dict(self) -> dict[str, Any]:
        stats = combined([answer.stats for answer in self.answers])
        return {
            "answers": len(self.answers),
            "tokens_per_second_of_a_client": per(stats.tokens, sum(self.latencies)),
            "tokens_per_second_of_all": per(stats.tokens, self.seconds),
            "mean_latency_seconds": fmean(self.latencies),
            "p95_latency_seconds": quantile(self.latencies, 0.95),
            "passes_per_token": per(stats.passes, stats.tokens),
        }


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    paths = find_model_paths(request)
    tokenizer = load_tokenizer(paths.target)
    asked = next(iter(choose(paths.prompts, workload.prompts, request.seed).values()))
    prompts = [chat_tokens(tokenizer, [{"role": "user", "content": prompt.text}]) for prompt in asked]
    backend, dtype = await choose_backend("auto"), str(half_on_gpu(request.device)).removeprefix("torch.")
    found = models(request)
    systems = (CLOUD_DECODING, *(_DRAFTING if MOA.name in found else ()))
    loads: dict[str, list[TimedLoad]] = {}
    for index, system in enumerate(systems):
        advance(f"{system.name}: starting", index / len(systems))
        options = ("--device", request.device, "--dtype", dtype)
        target, *drafts = found.values()
        opened = start_system(target, drafts, LINK, system, max(workload.clients), Pace(), 0.0, options, backend)
        async with opened as running:
            await running.warm_up(prompts[0])
            loads[system.name] = []
            for turn, clients in enumerate(workload.clients):
                share = (index + turn / len(workload.clients)) / len(systems)
                advance(f"{system.name}, {counted(clients, 'client')}", share)
                loads[system.name].append(await play(running.play, prompts, workload.tokens, clients))
    return make_report(loads, workload.tokens, f"{device_name(request.device)}, {dtype}", backend)


async def play(ask: Any, prompts: Sequence[Sequence[int]], tokens: int, clients: int) -> TimedLoad:
    """The answers that `ask`, `RealSystem.play`, gives to so many clients at once."""
    began = time.monotonic()
    answers = await ask(prompts, tokens, clients)
    return TimedLoad(clients, answers, time.monotonic() - began)


def make_report(loads: Mapping[str, Sequence[TimedLoad]], tokens: int, machine: str, backend: str) -> Report:
    numbers = {name: [each.as_dict() for each in of] for name, of in loads.items()}
    counts = [each.clients for each in loads[CLOUD_DECODING.name]]
    cells = [(index, name) for index in range(len(counts)) for name in loads]
    different = [
        count for index, count in enumerate(counts) if not is_identical([of[index].answers for of in loads.values()])
    ]
    return Report(
        title="One server under load in real time",
        headings=HEADINGS,
        rows=[_row(counts[index], name, numbers, index) for index, name in cells],
        remarks=(
            f"Target on {machine}. Nothing is waited for: passes and levels take what this machine takes. Greedy "
            f"answers of at most {tokens} tokens over {LINK}, emulated by `{backend}`, a link for each client. Clients "
            "and their draft models run on this machine's processor, all in one process: with many clients that is "
            "what limits systems whose clients draft. No server shares prefixes, so that a prompt costs each "
            "client the same.",
            "Tokens/s of a client are tokens over the sum of latencies; of all, tokens over the time from the first "
            "question to the end of the last answer. Of fewer than 20 answers no p95 is told. All clients have the "
            "same prompts, each beginning with another.",
            "Answers identical across systems: "
            + (f"no, with {', '.join(map(str, different))} clients." if different else "yes."),
        ),
        results={
            "clock": "real",
            "machine": machine,
            "link": LINK,
            "backend": backend,
            "identical": not different,
            "loads": [
                {"clients": count, "systems": {name: of[index] for name, of in numbers.items()}}
                for index, count in enumerate(counts)
            ],
        },
        faults=[
            *(
                f"with {name} and {counted(each.clients, 'client')}: {fault}"
                for name, of in loads.items()
                for each in of
                for answer in each.answers
                if (fault := fault_of(answer))
            ),
            *(f"with {counted(count, 'client')} the answers differ between systems" for count in different),
        ],
    )


def _row(clients: int, name: str, numbers: Mapping[str, Sequence[Mapping[str, float]]], index: int) -> list[str]:
    own, cloud = numbers[name][index], numbers[CLOUD_DECODING.name][index]
    alone, together = "tokens_per_second_of_a_client", "tokens_per_second_of_all"
    return [
        str(clients),
        name,
        f"{own[alone]:.1f}",
        f"{per(own[alone], cloud[alone]):.2f}",
        f"{own[together]:.0f}",
        f"{per(own[together], cloud[together]):.2f}",
        latency_in_words(own["mean_latency_seconds"], own["p95_latency_seconds"], int(own["answers"])),
        f"{own['passes_per_token']:.2f}",
    ]
