"""`law`: whether the tokens of answers under the rule `speculative` have the target's distribution, at many timings and
with many shapes of trees.

Which part of a tree a pass finds depends on when levels are drafted, sent and verified. If that depended on the drawn
tokens, the answers would deviate from the target's distribution, which tables make exactly known.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.goodness_of_fit import p_value
from netem.experiments.law.conditions import SHAPES, TIMINGS, TOKENS, RankCounts, Timing, sample
from netem.experiments.law.tables import CHANCES, make_tables

ANSWERS = 6_000
QUICK_ANSWERS = 200
FALSE_ALARM = 1e-3
"""The probability that a correct run is reported as a failure; each of its tests gets an equal share (Bonferroni)."""

HEADINGS = ("timing", "tree", "answers", "tokens a pass", "second token", "its p-value", "third token", "its p-value")


EVERY = "all"


@dataclass(frozen=True)
class ConditionResult:
    """The counts of one timing with one shape of tree."""

    timing: Timing
    shape: str
    counted: RankCounts


@dataclass(frozen=True)
class TestGroup:
    """Answers that are tested together: of one condition, of one timing, of one shape, or all. More answers show
    smaller
    deviations."""

    timing: str
    shape: str
    counted: RankCounts

    @property
    def p_values(self) -> tuple[float, ...]:
        """The p-value of each of the tokens."""
        return p_values(self.counted)


def models(request: Request) -> dict[str, Path]:
    """No checkpoints: tables replace the models."""
    return {}


async def measure(request: Request, advance: Advance) -> Report:
    tables = make_tables(request.seed)
    answers = QUICK_ANSWERS if request.quick else ANSWERS
    rows = []
    conditions = list(product(TIMINGS, SHAPES))
    for index, (timing, shape) in enumerate(conditions):
        advance(f"{timing.name}, {shape}", index / len(conditions))
        seed = request.seed * len(conditions) + index
        counted = await asyncio.to_thread(sample, timing, SHAPES[shape], tables, answers, seed)
        rows.append(ConditionResult(timing, shape, counted))
    return make_report(rows)


def tested(rows: Sequence[ConditionResult]) -> list[TestGroup]:
    """Each condition by itself, then pools of them."""
    timings = list(dict.fromkeys(row.timing.name for row in rows))
    shapes = list(dict.fromkeys(row.shape for row in rows))
    return [
        *(TestGroup(row.timing.name, row.shape, row.counted) for row in rows),
        *(TestGroup(name, EVERY, _pooled(row for row in rows if row.timing.name == name)) for name in timings),
        *(TestGroup(EVERY, name, _pooled(row for row in rows if row.shape == name)) for name in shapes),
        TestGroup(EVERY, EVERY, _pooled(rows)),
    ]


def _pooled(rows: Iterable[ConditionResult]) -> RankCounts:
    pooled = RankCounts()
    for row in rows:
        pooled.counts[:] += row.counted.counts
        pooled.passes.extend(row.counted.passes)
    return pooled


def p_values(counted: RankCounts) -> tuple[float, ...]:
    return tuple(p_value(counts, CHANCES) for counts in counted.counts)


def least_p_value(tests: int) -> float:
    """The p-value that the second and the third token of so many tests must all reach."""
    return FALSE_ALARM / (tests * (TOKENS - 1))


def make_report(rows: Sequence[ConditionResult]) -> Report:
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
        faults=[
            *(
                f"at '{row.timing.name}' with the tree '{row.shape}', {fault}"
                for row in rows
                for fault in dict.fromkeys(row.counted.faults)
            ),
            *(
                f"token {position + 1} at '{test.timing}' with the tree '{test.shape}' does not follow the law "
                f"(p = {p:.1e})"
                for test in tests
                for position, p in enumerate(test.p_values)
                if position and p < least
            ),
        ],
    )


def _shares(counted: RankCounts) -> list[float]:
    """The share of answers with the likeliest token, at each position."""
    return [count / len(counted.passes) for count in counted.counts[:, 0].tolist()]


def _cells(test: TestGroup) -> list[str]:
    answers, shares = len(test.counted.passes), _shares(test.counted)
    each = [cell for position in (1, 2) for cell in (f"{shares[position]:.3f}", f"{test.p_values[position]:.2g}")]
    speed = (TOKENS + 1) * answers / sum(test.counted.passes)
    return [test.timing, test.shape, str(answers), f"{speed:.2f}", *each]


def _result(row: ConditionResult) -> dict[str, Any]:
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
        "counts": row.counted.counts.tolist(),
        "passes": sum(row.counted.passes),
        "answers": len(row.counted.passes),
        "p_values": list(p_values(row.counted)),
    }
