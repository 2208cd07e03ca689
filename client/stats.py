"""What one answer cost, as scripts read it, and the meter that measures it. The clock is injected; no I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from common.clock import Clock

_DIGITS = {"seconds": 6, "tokens_per_second": 3, "ttft_seconds": 6, "accept_length": 3, "rtt_ms": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The keys of the `stats` object; `draft` and `rule` are names, the rest is measured for one answer, 0 where it
    does not occur."""

    tokens: int = 0  # committed, the end token included
    seconds: float  # from sending the prompt to Finished
    tokens_per_second: float = 0.0
    ttft_seconds: float  # from sending the prompt to the first commit
    accept_length: float = 0.0  # verified tokens per pass
    passes: int = 0  # that committed tokens of this answer, those included whose commits a resumed stream repeated
    bytes_up: int = 0
    bytes_down: int = 0
    rtt_ms: float = 0.0  # from sending Open to Opened, before any pass; once for a stream that began unconstrained
    provisional_tokens: int = 0  # offered before they were committed
    retracted_tokens: int = 0  # of these, taken back
    reconnects: int = 0
    draft: str
    rule: str
    state_bytes: Mapping[str, int] = field(default_factory=dict)  # of bytes_down, by kind of draft state
    unverified_tokens: int = 0  # of tokens, those of the draft that became final without verification

    def as_dict(self) -> dict[str, Any]:
        """Times to the microsecond and rates to the thousandth: further digits are noise."""
        return {**asdict(self), **{name: round(getattr(self, name), digits) for name, digits in _DIGITS.items()}}


def combined(answers: Sequence[Stats]) -> Stats:
    """Several answers of one system as one: amounts are sums, rates are sums over sums, and the time to first
    token and the round trip are medians."""
    tokens = sum(stats.tokens for stats in answers)
    seconds = sum(stats.seconds for stats in answers)
    passes = sum(stats.passes for stats in answers)
    unverified = sum(stats.unverified_tokens for stats in answers)
    state_bytes: Counter[str] = Counter()
    for stats in answers:
        state_bytes.update(stats.state_bytes)
    return Stats(
        tokens=tokens,
        seconds=seconds,
        tokens_per_second=per(tokens, seconds),
        ttft_seconds=median(stats.ttft_seconds for stats in answers),
        accept_length=per(tokens - unverified, passes),
        passes=passes,
        bytes_up=sum(stats.bytes_up for stats in answers),
        bytes_down=sum(stats.bytes_down for stats in answers),
        rtt_ms=median([stats.rtt_ms for stats in answers if stats.rtt_ms] or [0.0]),
        provisional_tokens=sum(stats.provisional_tokens for stats in answers),
        retracted_tokens=sum(stats.retracted_tokens for stats in answers),
        reconnects=sum(stats.reconnects for stats in answers),
        draft=answers[0].draft,
        rule=answers[0].rule,
        state_bytes=dict(state_bytes),
        unverified_tokens=unverified,
    )


class Meter:
    """Times one answer, on a clock in seconds, until it is finished."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._began = clock()
        self._first_commit: float | None = None
        self._finished: float | None = None

    def committed(self) -> None:
        if self._first_commit is None:
            self._first_commit = self.elapsed()

    def finished(self) -> None:
        self._finished = self.elapsed()

    def elapsed(self) -> float:
        return self._clock() - self._began if self._finished is None else self._finished

    @property
    def ttft(self) -> float:
        """Seconds to the first commit; all the time that passed if there was none."""
        return self.elapsed() if self._first_commit is None else self._first_commit


def per(amount: float, unit: float) -> float:
    """`amount` per `unit`, 0 if there was no unit."""
    return amount / unit if unit else 0.0
