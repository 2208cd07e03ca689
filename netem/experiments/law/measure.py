"""`speculative`: whether the tokens of sampled answers are distributed as the target's own, at many timings and with
many shapes of trees.

What a pass finds of a tree depends on when levels are drafted, sent and judged. If that depended on what was drawn, the
answers would drift from the target's law, which tables make exactly known.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.goodness_of_fit import p_value
from netem.experiments.law.cells import SHAPES, TIMINGS, TOKENS, Sampled, Timing, sample
from netem.experiments.law.tables import CHANCES, make_tables

ANSWERS = 6_000
QUICK_ANSWERS = 200
FALSE_ALARM = 1e-3
"""The chance that a run of honest answers is called a failure; each of its tests gets an even share."""

HEADINGS = ("timing", "tree", "answers", "tokens a pass", "second token", "its p-value", "third token", "its p-value")


@dataclass(frozen=True)
class Row:
    timing: Timing
    shape: str
    sampled: Sampled
    p_values: tuple[float, ...]  # of each token by itself


def models(request: Request) -> dict[str, Path]:
    """Tables stand where models stand."""
    return {}


async def measure(request: Request, advance: Advance) -> Report:
    tables = make_tables(request.seed)
    answers = QUICK_ANSWERS if request.quick else ANSWERS
    rows = []
    cells = list(product(TIMINGS, SHAPES))
    for index, (timing, shape) in enumerate(cells):
        advance(f"{timing.name}, {shape}", index / len(cells))
        seed = request.seed * len(cells) + index
        sampled = await asyncio.to_thread(sample, timing, SHAPES[shape], tables, answers, seed)
        rows.append(Row(timing, shape, sampled, p_values(sampled)))
    return make_report(rows)


def p_values(sampled: Sampled) -> tuple[float, ...]:
    return tuple(p_value(counts, CHANCES) for counts in sampled.counts)


def least_p_value(rows: int) -> float:
    """What the second and the third token of so many rows must all reach."""
    return FALSE_ALARM / (rows * (TOKENS - 1))


def make_report(rows: Sequence[Row]) -> Report:
    shares = [(row.sampled.counts[:, 0] / len(row.sampled.passes)).tolist() for row in rows]
    least = least_p_value(len(rows))
    return Report(
        title="The law of speculative sampling through the real drafting loop and server",
        headings=HEADINGS,
        rows=[_cells(row, share) for row, share in zip(rows, shares, strict=True)],
        remarks=(
            "The share of answers whose token is the one that the target finds likeliest there, "
            f"{CHANCES[0]:.3f} by the law. The first token is chosen before anything has been drafted.",
            f"Chi-square over tokens by their rank; every p-value must be above {least:.1e}, which honest answers "
            f"miss in {FALSE_ALARM:g} of all runs.",
            "Virtual clock; target and drafter are tables, all else is what serves and drafts elsewhere.",
        ),
        results={
            "law": CHANCES,
            "least_p_value": least,
            "rows": [_result(row) for row in rows],
        },
        draw=lambda axes: _draw(axes, shares),
        faults=[
            f"token {place + 1} at '{row.timing.name}' with the tree '{row.shape}' does not follow the law "
            f"(p = {p:.1e})"
            for row in rows
            for place, p in enumerate(row.p_values)
            if place and p < least
        ],
    )


def _cells(row: Row, shares: Sequence[float]) -> list[str]:
    answers = len(row.sampled.passes)
    each = [cell for place in (1, 2) for cell in (f"{shares[place]:.3f}", f"{row.p_values[place]:.2g}")]
    speed = (TOKENS + 1) * answers / sum(row.sampled.passes)
    return [row.timing.name, row.shape, str(answers), f"{speed:.2f}", *each]


def _result(row: Row) -> dict[str, Any]:
    timing = row.timing
    return {
        "timing": timing.name,
        "pass_ms": timing.pace.per_pass * 1000,
        "token_ms": timing.pace.per_token * 1000,
        "level_ms": timing.level_s * 1000,
        "way": asdict(timing.way),
        "idle": timing.idle,
        "policy": timing.policy.name,
        "clients": timing.clients,
        "pass_tokens": timing.pass_tokens,
        "shape": row.shape,
        "counts": row.sampled.counts.tolist(),
        "passes": sum(row.sampled.passes),
        "answers": len(row.sampled.passes),
        "p_values": list(row.p_values),
    }


def _draw(axes: Any, shares: Sequence[Sequence[float]]) -> None:
    for place, name in ((1, "second token"), (2, "third token")):
        axes.plot([share[place] for share in shares], "o", label=name)
    axes.axhline(CHANCES[0], color="gray")
    axes.set_xlabel("row of the table")
    axes.set_ylabel("share of the likeliest token")
    axes.legend()
