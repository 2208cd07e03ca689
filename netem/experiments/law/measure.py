"""`law`: whether the tokens of answers under the rule `speculative` have the target's distribution, at many timings and
with many shapes of trees and two drafters.

Which part of a tree a pass finds depends on when levels are drafted, sent and verified. If that depended on the drawn
tokens, the answers would deviate from the target's distribution, which tables make exactly known.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.goodness_of_fit import p_value
from netem.experiments.law.conditions import CONDITIONS, TOKENS, Condition, RankCounts, sample
from netem.experiments.law.tables import CHANCES, make_tables

ANSWERS = 6_000
QUICK_ANSWERS = 200
FALSE_ALARM = 1e-3
"""The probability that a correct run is reported as a failure; each of its tests gets an equal share (Bonferroni)."""

HEADINGS = (
    "timing",
    "tree",
    "drafter",
    "answers",
    "tokens a pass",
    "second token",
    "its p-value",
    "third token",
    "its p-value",
)


EVERY = "all"
_NO_NAMES = (EVERY, EVERY, EVERY)


@dataclass(frozen=True)
class ConditionResult:
    condition: Condition
    counted: RankCounts


@dataclass(frozen=True)
class TestGroup:
    """Answers that are tested together: of one condition, of one timing, of one shape, of one drafter, or all. More
    answers show smaller deviations."""

    timing: str
    shape: str
    drafter: str
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
    for index, condition in enumerate(CONDITIONS):
        name = f"{condition.timing.name}, {condition.shape}, {condition.drafter}"
        advance(name, index / len(CONDITIONS))
        seed = request.seed * len(CONDITIONS) + index
        count = partial(sample, condition, tables, answers, seed)
        rows.append(ConditionResult(condition, await asyncio.to_thread(request.steps.once, name, count)))
    return make_report(rows)


def tested(rows: Sequence[ConditionResult]) -> list[TestGroup]:
    """Each condition by itself, then pools of them."""
    singles = [TestGroup(*row.condition.names, row.counted) for row in rows]
    pools = [
        _pool(rows, index, name)
        for index in range(len(_NO_NAMES))
        for name in dict.fromkeys(row.condition.names[index] for row in rows)
    ]
    return [*singles, *pools, TestGroup(*_NO_NAMES, _pooled(rows))]


def _pool(rows: Sequence[ConditionResult], index: int, name: str) -> TestGroup:
    """The rows whose condition has this one of its names."""
    timing, shape, drafter = (name if other == index else EVERY for other in range(len(_NO_NAMES)))
    return TestGroup(timing, shape, drafter, _pooled(row for row in rows if row.condition.names[index] == name))


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
            "The drafter 'levels' draws one level in each step; 'blocks' predicts four tokens, from which it may draw "
            "several.",
            "Virtual clock; target and drafter are tables, all else is what serves and drafts elsewhere.",
        ),
        results={
            "law": CHANCES,
            "least_p_value": least,
            "rows": [_result(row) for row in rows],
            "pooled": [
                {"timing": test.timing, "shape": test.shape, "drafter": test.drafter, "p_values": test.p_values}
                for test in tests[len(rows) :]
            ],
        },
        faults=[
            *(f"{_where(row.condition.names)}, {fault}" for row in rows for fault in dict.fromkeys(row.counted.faults)),
            *(
                f"token {position + 1} {_where((test.timing, test.shape, test.drafter))} does not follow the law "
                f"(p = {p:.1e})"
                for test in tests
                for position, p in enumerate(test.p_values)
                if position and p < least
            ),
        ],
    )


def _where(names: tuple[str, str, str]) -> str:
    timing, shape, drafter = names
    return f"at '{timing}' with the tree '{shape}' and the drafter '{drafter}'"


def _shares(counted: RankCounts) -> list[float]:
    """The share of answers with the likeliest token, at each position."""
    return [count / len(counted.passes) for count in counted.counts[:, 0].tolist()]


def _cells(test: TestGroup) -> list[str]:
    answers, shares = len(test.counted.passes), _shares(test.counted)
    each = [cell for position in (1, 2) for cell in (f"{shares[position]:.3f}", f"{test.p_values[position]:.2g}")]
    speed = (TOKENS + 1) * answers / sum(test.counted.passes)
    return [test.timing, test.shape, test.drafter, str(answers), f"{speed:.2f}", *each]


def _result(row: ConditionResult) -> dict[str, Any]:
    condition, timing = row.condition, row.condition.timing
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
        "shape": condition.shape,
        "drafter": condition.drafter,
        "counts": row.counted.counts.tolist(),
        "passes": sum(row.counted.passes),
        "answers": len(row.counted.passes),
        "p_values": list(p_values(row.counted)),
    }
