"""pass@1: the share of answers whose programs pass, one answer to each task, with its interval.

What may live here: grading many answers in parallel, and the figures. It may not know where tasks and answers come
from.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from common.protocol.errors import MisuseError
from netem.experiments.one_device.intervals import Estimate
from netem.experiments.tasks.sandbox import ProgramOutcome, ProgramVerdict, SandboxError, run
from netem.experiments.tasks.tasks import Program, Task

CORES = os.cpu_count() or 1
_DEVIATIONS = 1.959964  # standard deviations of the normal distribution on either side of 95%


@dataclass(frozen=True, slots=True)
class Unjudged:
    """An answer without a verdict, because the sandbox failed for this reason."""

    reason: str


@dataclass(frozen=True)
class Grades:
    """verdicts: in the order of the answers. Answers without a verdict are not counted in any figure."""

    verdicts: tuple[ProgramVerdict | Unjudged, ...]

    @property
    def counts(self) -> Mapping[ProgramOutcome, int]:
        """Counts of the answers with a verdict; every outcome is a key."""
        counted = Counter(each.outcome for each in self.verdicts if isinstance(each, ProgramVerdict))
        return {outcome: counted[outcome] for outcome in ProgramOutcome}

    @property
    def judged(self) -> int:
        return sum(self.counts.values())

    @property
    def unjudged(self) -> int:
        return len(self.verdicts) - self.judged

    @property
    def pass_at_1(self) -> Estimate:
        """The share that passed, 0 to 1, of the judged answers."""
        return wilson(self.counts[ProgramOutcome.PASSED], self.judged)

    def as_dict(self) -> dict[str, Any]:
        return {
            "pass_at_1": self.pass_at_1.as_dict(),
            "judged": self.judged,
            "unjudged": self.unjudged,
            "outcomes": {str(outcome): count for outcome, count in self.counts.items()},
        }


def grade(
    answers: Sequence[tuple[Task, str]], workers: int = CORES, judge: Callable[[Program], ProgramVerdict] = run
) -> Grades:
    """Judges every answer, `workers` at a time; blocks until all are done.

    Raises MisuseError without answers, and SandboxError where none of them could be judged.
    """
    if not answers:
        raise MisuseError("pass@1 needs answers, at least one")

    def graded(pair: tuple[Task, str]) -> ProgramVerdict | Unjudged:
        task, answer = pair
        program = task.program(answer)
        try:
            return judge(program)
        except SandboxError as error:
            return Unjudged(str(error))

    with ThreadPoolExecutor(workers) as pool:
        verdicts = tuple(pool.map(graded, answers))
    failures = [each.reason for each in verdicts if isinstance(each, Unjudged)]
    if len(failures) == len(verdicts):
        raise SandboxError(f"no answer could be judged: {failures[0]}")
    return Grades(verdicts)


def wilson(passed: int, judged: int) -> Estimate:
    """The share and its 95% score interval (Wilson 1927), which is valid for few answers and at shares of 0 and 1."""
    share, squared = passed / judged, _DEVIATIONS**2
    centre = (passed + squared / 2) / (judged + squared)
    half = _DEVIATIONS / (judged + squared) * math.sqrt(judged * share * (1 - share) + squared / 4)
    # At 0 and 1 the share itself is a bound; rounding must not exclude it.
    return Estimate(share, min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half)))
