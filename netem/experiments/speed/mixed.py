"""`mixed`: prompts of 8,000 tokens among chats: the gaps of chats and the first tokens of long prompts."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from client.stats import per
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.speed.costs import OVERHEADS
from netem.experiments.speed.mixed_run import CHATTING, LINK, PASS_TOKENS, MixedLoad, MixedRun, run_mixed
from netem.experiments.speed.runs import fault_of
from server.options import Pace

MACHINES: Mapping[str, Pace] = {
    "GPU, 8B": Pace(0.030, 0.0001, per_read=2.5e-7, per_score=3.3e-9),
    "CPU, small": Pace(0.014, 0.00075, per_read=8e-7, per_score=1.75e-7),
}
"""Stated costs, by machine: the usual ones of an 8B target, with its K/V at the bandwidth and its scores at the speed
that these imply; and a target of 4 layers of 768 with 4 K/V heads in float32 on one core, measured but for its K/V,
which have the bandwidth of its weights."""

CHATS = 8
READERS = (1, 3)
GAP_PASSES = 2.0
"""The most that the 95th percentile of chats' gaps may be, in passes of the same chats alone."""

SLOWER = 2.0
"""The most that a long prompt's first token may take, beside its share among long prompts: times that of one alone."""

HEADINGS = (
    "machine",
    "chats",
    "long prompts at once",
    "chats' gap p50 / p95 / longest",
    "p95 in passes",
    "chats' first token p50 / p95",
    "long prompt's first token",
    "x alone",
    "x alone and share",
)


@dataclass(frozen=True)
class MixedCell:
    """One load on one machine; `alone` is one long prompt without chats, `undisturbed` the same chats without long
    prompts."""

    machine: str
    chatting: str
    load: MixedLoad
    run: MixedRun
    undisturbed: MixedRun
    alone: MixedRun

    @property
    def gap_passes(self) -> float:
        return per(self.run.chat_gap(0.95), self.undisturbed.chat_gap(0.5))

    @property
    def slower(self) -> float:
        """The first token of a long prompt against one alone; 0 without long prompts."""
        return per(self.run.long_first_token, self.alone.long_first_token) if self.load.readers else 0.0

    @property
    def slower_than_share(self) -> float:
        return self.slower / max(1, self.load.readers)


async def measure(request: Request, advance: Advance) -> Report:
    load = MixedLoad(CHATS, 0, *((6.0, 1) if request.quick else (30.0, 5)))
    cells: list[MixedCell] = []
    runs = len(MACHINES) * (1 + len(CHATTING) * (1 + len(READERS)))

    async def run(machine: str, chatting: str, load: MixedLoad) -> MixedRun:
        advance(f"{machine}, {chatting}, {load.readers} long", len(cells) / runs)
        # In a thread: the virtual clock has an event loop of its own.
        return await asyncio.to_thread(run_mixed, MACHINES[machine], load, CHATTING[chatting], request.seed)

    for machine in MACHINES:
        alone = await run(machine, "cloud decoding", replace(load, chats=0, readers=1))
        for chatting in CHATTING:
            undisturbed = await run(machine, chatting, load)
            cells.append(MixedCell(machine, chatting, load, undisturbed, undisturbed, alone))
            for readers in READERS:
                mixed = replace(load, readers=readers)
                found = await run(machine, chatting, mixed)
                cells.append(MixedCell(machine, chatting, mixed, found, undisturbed, alone))
    return make_report(cells)


def make_report(cells: Sequence[MixedCell]) -> Report:
    mixed = [cell for cell in cells if cell.load.readers]
    gap, slower = max(cell.gap_passes for cell in mixed), max(cell.slower_than_share for cell in mixed)
    kept = gap <= GAP_PASSES and slower <= SLOWER
    load = cells[0].load
    return Report(
        title=f"Prompts of {load.long_tokens} tokens among chats, on the virtual clock",
        headings=HEADINGS,
        rows=[_row(cell) for cell in cells],
        remarks=(
            f"Promised: chats' p95 gap is at most {GAP_PASSES:g} passes, and a long prompt's first token comes after "
            f"at most {SLOWER:g} times its time alone and its share. Measured: at most {gap:.2f} passes and "
            f"{slower:.2f} times; {'kept' if kept else 'NOT kept'}.",
            f"{load.chats} chats with prompts of 30 to 200 tokens and answers of {load.answer_tokens}, one after the "
            f"other; each client of long prompts sends {load.each}, one after the other. A link of 10 ms each way "
            "without jitter. Tables replace the models; engine, scheduler, sessions and clients are the real ones. At "
            f"most {PASS_TOKENS} tokens in a pass; {OVERHEADS}.",
            "A gap is the time between two commits of one answer; a pass is the median gap of the same chats without "
            "long prompts. Beside long prompts, gaps and first tokens of chats count that one of them could hold up: "
            "between its request and its first token. 'x alone' divides by one long prompt's first token on an idle "
            "server; 'and share' also by the number of long prompts at once.",
            *(
                f"{name}: a pass takes {1000 * pace.per_pass:g} ms, or {1000 * pace.per_token:g} ms a token where that "
                f"is more, and {1e6 * pace.per_read:g} us for each position of K/V that it reads and "
                f"{1e6 * pace.per_score:g} us for each score."
                for name, pace in MACHINES.items()
            ),
        ),
        results={
            "clock": "virtual",
            "link": asdict(LINK),
            "machines": {name: asdict(pace) for name, pace in MACHINES.items()},
            "promised": {
                "gap_passes": GAP_PASSES,
                "slower_than_share": SLOWER,
                "measured": {"gap_passes": gap, "slower_than_share": slower},
                "kept": kept,
            },
            "cells": [_result(cell) for cell in cells],
        },
        faults=[
            *(
                f"{cell.machine}, {cell.chatting}, {cell.load.readers} long: {fault}"
                for cell in cells
                for timed in (*cell.run.chats.answers, *cell.run.long.answers)
                if (fault := fault_of(timed.answer))
            ),
            *([] if kept else ["long prompts among chats cost more than promised"]),
        ],
    )


def _result(cell: MixedCell) -> dict[str, Any]:
    run = cell.run
    return {
        "machine": cell.machine,
        "chats": cell.chatting,
        "long_prompts_at_once": cell.load.readers,
        "gap_p50_seconds": run.chat_gap(0.5),
        "gap_p95_seconds": run.chat_gap(0.95),
        "gap_longest_seconds": run.chat_gap(1.0),
        "gap_p95_passes": cell.gap_passes,
        "chat_first_token_p50_seconds": run.chat_first_token(0.5),
        "chat_first_token_p95_seconds": run.chat_first_token(0.95),
        "long_first_token_seconds": run.long_first_token if cell.load.readers else None,
        "long_first_token_alone_seconds": cell.alone.long_first_token,
        "long_against_alone": cell.slower,
        "long_against_alone_and_share": cell.slower_than_share,
        "passes": run.chats.counters.passes,
    }


def _row(cell: MixedCell) -> list[str]:
    run = cell.run
    long = (
        [f"{run.long_first_token:.2f} s", f"{cell.slower:.2f}", f"{cell.slower_than_share:.2f}"]
        if cell.load.readers
        else ["-", "-", "-"]
    )
    return [
        cell.machine,
        cell.chatting,
        str(cell.load.readers),
        " / ".join(f"{1000 * run.chat_gap(share):.0f}" for share in (0.5, 0.95, 1.0)) + " ms",
        f"{cell.gap_passes:.2f}",
        " / ".join(f"{1000 * run.chat_first_token(share):.0f}" for share in (0.5, 0.95)) + " ms",
        *long,
    ]
