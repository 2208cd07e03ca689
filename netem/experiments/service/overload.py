"""`overload`: a server with twice as many clients as it accepts: admitted answers must keep their speed, and the other
clients must be refused at once, with a time after which to retry.

A real server process and real connections in real time, first with as many clients as the server accepts, then with
twice as many.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from client.answering import AnswerOptions
from client.assembly import Client, client_for
from client.demo.asking import prompt_tokens
from client.demo.family import choose_prompts, find_family
from client.demo.systems_under_test import serving
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import CLOUD
from client.errors import ServerRefusedError
from client.link.stream import Access
from client.stats import per
from common.address import parse_destination
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.quiet import no_bar
from netem.experiments.speed.runs import fault_of, quantile

RUNNING = 4
SECONDS = 60.0
QUICK_SECONDS = 10.0
MAX_NEW_TOKENS = 64
MOST_SLOWDOWN = 1.5
MOST_SECONDS_TO_REFUSE = 0.1
HEADINGS = ("clients", "answers", "tokens/s", "gap, median ms", "gap, p95 ms", "refused", "refused within ms, p95")
SERVER = ("--max-running", str(RUNNING), "--pace-pass", "30ms", "--pace-token", "1ms", "--idle", "eager")


@dataclass(slots=True)
class LoadObservations:
    """The observations of all clients of one load. Times are in seconds.

    tokens: that came within `seconds`. gaps: between tokens of admitted answers. refused: from a request to its
    refusal. hints: the retry-after of refusals. failures: why answers broke off, which count as none.
    """

    seconds: float
    answers: int = 0
    tokens: int = 0
    gaps: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    hints: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    seconds = QUICK_SECONDS if request.quick else SECONDS
    texts = choose_prompts(family.prompts, 12, request.seed)
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        server = await stack.enter_async_context(serving(family, *SERVER))
        access = Access(parse_destination(await server.ready()))
        client = await stack.enter_async_context(client_for(access, DraftChoice("lookup"), cache, no_bar))
        prompts = [prompt_tokens(client, text) for text in texts]
        loads: dict[int, LoadObservations] = {}
        for number, count in enumerate((RUNNING, 2 * RUNNING)):
            advance(f"{count} clients", number / 2)
            loads[count] = observed = LoadObservations(seconds)
            deadline_s = asyncio.get_running_loop().time() + seconds
            await asyncio.gather(
                *(_run_client(deadline_s, client, prompts[index:], observed) for index in range(count))
            )
    return make_report(loads)


async def _run_client(deadline_s: float, client: Client, prompts: list[list[int]], observed: LoadObservations) -> None:
    options = AnswerOptions(CLOUD, MAX_NEW_TOKENS)
    now = asyncio.get_running_loop().time
    turn = 0
    while now() < deadline_s:
        commits: list[float] = []

        def watch(committed: Any, _: Any, commits: list[float] = commits) -> None:
            commits.extend([now()] * bool(committed))
            observed.tokens += len(committed) * (now() < deadline_s)

        began_s = now()
        try:
            async with client.converse(CLOUD, None) as conversation:
                answer = await conversation.answer(prompts[turn % len(prompts)], options.settings(), watch)
        except ServerRefusedError as error:
            observed.refused.append(now() - began_s)
            observed.hints.append(error.retry_after)
            await asyncio.sleep(error.retry_after)
            continue
        turn += 1
        if failure := fault_of(answer):
            observed.failures.append(failure)
            continue
        observed.answers += 1
        observed.gaps += [later - earlier for earlier, later in pairwise(commits)]


def make_report(loads: dict[int, LoadObservations]) -> Report:
    alone, crowded = loads.values()
    slowdown = per(_median(crowded.gaps), _median(alone.gaps))
    slowest = quantile(crowded.refused, 0.95) if crowded.refused else 0.0
    return Report(
        title="A server that is asked for twice what it does at a time",
        headings=HEADINGS,
        rows=[_cells(count, observed) for count, observed in loads.items()],
        remarks=(
            f"`outriderd` makes {RUNNING} answers at a time; a pass takes 30 ms, or 1 ms a token; answers of "
            f"{MAX_NEW_TOKENS} "
            "tokens at most, decoded in the cloud. A client that is refused comes back when it was told to.",
            f"Of those that are let in, the time from token to token is {slowdown:.2f} times as long (medians).",
            f"Those that are refused are told to come back after {_median(crowded.hints):.1f} s (median).",
        ),
        results={
            "slowdown": slowdown,
            "loads": {
                str(count): {
                    "answers": observed.answers,
                    "tokens": observed.tokens,
                    "gap_median": _median(observed.gaps),
                    "gap_p95": quantile(observed.gaps, 0.95),
                    "refused": len(observed.refused),
                    "refused_p95": quantile(observed.refused, 0.95) if observed.refused else None,
                    "refused_most": max(observed.refused, default=None),
                    "hint_median": median(observed.hints) if observed.hints else None,
                }
                for count, observed in loads.items()
            },
        },
        faults=[
            *(
                f"with {count} clients, {failure}"
                for count, observed in loads.items()
                for failure in observed.failures[:10]
            ),
            *(f"with {count} clients no answer was whole" for count, observed in loads.items() if not observed.answers),
            *([f"tokens come {slowdown:.2f} times as slowly"] if slowdown > MOST_SLOWDOWN else []),
            *([f"a refusal took {slowest * 1000:.0f} ms"] if slowest > MOST_SECONDS_TO_REFUSE else []),
            *([] if crowded.refused else ["nobody was refused"]),
            *(["a refusal said no time to come back"] if not all(crowded.hints) else []),
        ],
    )


def _median(values: Sequence[float]) -> float:
    """0 where there are no values."""
    return median(values) if values else 0.0


def _cells(count: int, observed: LoadObservations) -> list[str]:
    return [
        str(count),
        str(observed.answers),
        f"{observed.tokens / observed.seconds:.0f}",
        f"{_median(observed.gaps) * 1000:.0f}",
        f"{quantile(observed.gaps, 0.95) * 1000:.0f}",
        str(len(observed.refused)),
        f"{quantile(observed.refused, 0.95) * 1000:.0f}" if observed.refused else "",
    ]
