"""The outcome of one answer under faults, judged against its reference; shared by `torture` and `flapping`.

Pure. It may not know links, servers or tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median, quantiles
from typing import Any, TypeVar

from client.answer import Answer
from netem.experiments.references import Reference, verdict
from netem.experiments.speed.runs import drafter_failure
from netem.experiments.torture.answer_record import FaultRecord

MAX_NEW_TOKENS = 40
BROKEN_OFF = "broken off"
VERDICTS = ("identical", "near-tie", "different", BROKEN_OFF)
_FAULTY = ("different", BROKEN_OFF)


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """index: the number of the answer. why: the reason for which it ended. retracted: tokens that were shown as final
    and are not in the answer. drafter_failed: the answer went on without its drafter, as `why` says."""

    index: int
    rule: str
    draft: str
    verdict: str = BROKEN_OFF
    why: str = ""
    retracted: int = 0
    reconnects: int = 0
    drafter_failed: bool = field(default=False, kw_only=True)

    @property
    def is_faulty(self) -> bool:
        return self.drafter_failed or bool(self.retracted) or self.verdict in _FAULTY

    @property
    def fault(self) -> str:
        """A faulty outcome in words."""
        what = f"answer {self.index} ({self.rule}, {self.draft}) is {self.verdict}"
        return f"{what}, {self.retracted} final tokens of it were retracted: {self.why}"

    def as_dict(self) -> dict[str, Any]:
        return {"rule": self.rule, "draft": self.draft, "verdict": self.verdict, "why": self.why}


Outcome = TypeVar("Outcome", bound=AnswerOutcome)


def judged(outcome: Outcome, reference: Reference, answer: Answer, record: FaultRecord) -> Outcome:
    """The outcome with what the answer and the record of it say."""
    is_whole = answer.finish_reason in ("stop", "length")
    return replace(
        outcome,
        verdict=verdict(reference, answer.tokens) if is_whole else BROKEN_OFF,
        why=answer.failure or answer.note or answer.finish_reason,
        retracted=record.retracted(answer.tokens),
        reconnects=answer.stats.reconnects,
        drafter_failed=bool(drafter_failure(answer)),
    )


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum of at least one time."""
    p95 = quantiles(seconds, n=20, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]
    return {"median": round(median(seconds), 3), "p95": round(p95, 3), "most": round(max(seconds), 3)}
