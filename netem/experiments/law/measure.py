"""`speculative`: whether the tokens of sampled answers are distributed as the target's own, at many timings and with
many shapes of trees.

What a pass finds of a tree depends on when levels are drafted, sent and judged. If that depended on what was drawn, the
answers would drift from the target's law, which tables make exactly known.
"""

import asyncio
from collections.abc import Iterable, Sequence
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


EVERY = "all"


@dataclass(frozen=True)
class Row:
    timing: Timing
    shape: str
    sampled: Sampled


@dataclass(frozen=True)
class Tested:
    """Answers that are tested together: those of a row, of a timing, of a tree, or all. The more, the finer."""

    timing: str
    shape: str
    sampled: Sampled

    @property
    def p_values(self) -> tuple[float, ...]:
        """Of each token by itself."""
        return p_values(self.sampled)


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
        rows.append(Row(timing, shape, sampled))
    return make_report(rows)


def tested(rows: Sequence[Row]) -> list[Tested]:
    """Each row by itself, then pools of them."""
    timings = list(dict.fromkeys(row.timing.name for row in rows))
    shapes = list(dict.fromkeys(row.shape for row in rows))
    return [
        *(Tested(row.timing.name, row.shape, row.sampled) for row in rows),
        *(Tested(name, EVERY, _pooled(row for row in rows if row.timing.name == name)) for name in timings),
        *(Tested(EVERY, name, _pooled(row for row in rows if row.shape == name)) for name in shapes),
        Tested(EVERY, EVERY, _pooled(rows)),
    ]


def _pooled(rows: Iterable[Row]) -> Sampled:
    pooled = Sampled()
    for row in rows:
        pooled.counts[:] += row.sampled.counts
        pooled.passes.extend(row.sampled.passes)
    return pooled


def p_values(sampled: Sampled) -> tuple[float, ...]:
    return tuple(p_value(counts, CHANCES) for counts in sampled.counts)


def least_p_value(tests: int) -> float:
    """What the second and the third token of so many tests must all reach."""
    return FALSE_ALARM / (tests * (TOKENS - 1))


def make_report(rows: Sequence[Row]) -> Report:
    tests = tested(rows)
    least = least_p_value(len(tests))
    return Report(
        title="The law of speculative sampling through the real drafting loop and server",
        headings=HEADINGS,
        rows=[_cells(test) for test in tests],
        remarks=(
            "The share of answers whose token is the one that the target finds likeliest there, "
            f"{CHANCES[0]:.3f} by the law. The first token is chosen before anything has been drafted.",
            f"Chi-square over tokens by their rank; every p-value must be above {least:.1e}, which honest answers "
            f"miss in {FALSE_ALARM:g} of all runs. Rows with '{EVERY}' are several rows together: they see smaller "
            "deviations.",
            "Virtual clock; target and drafter are tables, all else is what serves and drafts elsewhere.",
        ),
        results={
            "law": CHANCES,
            "least_p_value": least,
            "rows": [_result(row) for row in rows],
            "pooled": [
                {"timing": test.timing, "shape": test.shape, "p_values": test.p_values} for test in tests[len(rows) :]
            ],
        },
        draw=lambda axes: _draw(axes, [_shares(row.sampled) for row in rows]),
        faults=[
            f"token {place + 1} at '{test.timing}' with the tree '{test.shape}' does not follow the law (p = {p:.1e})"
            for test in tests
            for place, p in enumerate(test.p_values)
            if place and p < least
        ],
    )


def _shares(sampled: Sampled) -> list[float]:
    """Of answers with the likeliest token at each place."""
    return [count / len(sampled.passes) for count in sampled.counts[:, 0].tolist()]


def _cells(test: Tested) -> list[str]:
    answers, shares = len(test.sampled.passes), _shares(test.sampled)
    each = [cell for place in (1, 2) for cell in (f"{shares[place]:.3f}", f"{test.p_values[place]:.2g}")]
    speed = (TOKENS + 1) * answers / sum(test.sampled.passes)
    return [test.timing, test.shape, str(answers), f"{speed:.2f}", *each]


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
        "p_values": list(p_values(row.sampled)),
    }


def _draw(axes: Any, shares: Sequence[Sequence[float]]) -> None:
    for place, name in ((1, "second token"), (2, "third token")):
        axes.plot([share[place] for share in shares], "o", label=name)
    axes.axhline(CHANCES[0], color="gray")
    axes.set_xlabel("row of the table")
    axes.set_ylabel("share of the likeliest token")
    axes.legend()
