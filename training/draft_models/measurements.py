"""The measurements of a run: how many, in which rounds, and what is noted of them.

What may live here: their sizes and what follows from answers. It may not draft, nor know any recipe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from common.draft_models.measured_acceptance import LONG_LEVELS, LONG_NODES, MeasuredAcceptance
from training.draft_models.recipe import Evaluation, RoundsSize

MEASUREMENTS = 10
MEASURED_SHARE = 0.2
"""The number of measurements in a run, and with `--minutes` about the largest share of the time that they take."""


@dataclass(frozen=True)
class MeasurementSize:
    """The number of prompts that are answered in such rounds."""

    prompts: int
    rounds: RoundsSize


DURING, AT_THE_END = MeasurementSize(8, RoundsSize(48)), MeasurementSize(32, RoundsSize(128))
ONE_LEVEL = replace(AT_THE_END, rounds=replace(AT_THE_END.rounds, levels=1))
LONG = replace(AT_THE_END, rounds=replace(AT_THE_END.rounds, levels=LONG_LEVELS, nodes=LONG_NODES))


def within(budget_s: float, step_seconds: float, measure_seconds: float) -> tuple[int, int]:
    """The number of steps and of measurements that fit into `budget_s`, with the last and longer ones."""
    at_the_end = (AT_THE_END, ONE_LEVEL, LONG)
    last = sum(each.prompts * each.rounds.new_tokens for each in at_the_end) / (
        DURING.prompts * DURING.rounds.new_tokens
    )
    measurements = MEASUREMENTS
    if measure_seconds > 0:
        measurements = min(MEASUREMENTS, max(1, int(MEASURED_SHARE * budget_s / measure_seconds - last)))
    left = budget_s - (measurements - 1 + last) * measure_seconds
    return max(1, int(left / step_seconds)), measurements


def worth(depth: int, measured: Evaluation, one_level: Evaluation, long: Evaluation | None) -> MeasuredAcceptance:
    """What is noted of a draft that runs `depth` of the target's layers; `long` is None where the context has no
    room for such rounds."""
    answers = () if long is None else long.answers[depth]
    of_prompts = tuple(each.accept_length for each in answers if each.passes > 1)
    return MeasuredAcceptance(measured.by_depth[depth], one_level.by_depth[depth], of_prompts)
