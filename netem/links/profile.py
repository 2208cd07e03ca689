"""The properties of a link as validated data. Knows no sockets, no clock and no particular profile."""

import math
from dataclasses import dataclass

from common.protocol.errors import MisuseError
from netem.links.burst_loss import Bursts
from netem.links.outages import NEVER, Outages
from netem.links.trace import Trace, TraceLine


@dataclass(frozen=True)
class Direction:
    """One way along a link.

    rate_bits_per_s: bits per second; None is unlimited. trace: a rate that changes, instead. delay_ms, jitter_ms: mean
    and standard deviation of the normal distribution of the one-way delay, whose negative draws become 0. loss: the
    probability that a packet is lost; bursts: losses that come together. queue_bytes: what may wait for the
    transmitter before packets are dropped; None is unlimited.
    Raises MisuseError for values that no link can have.
    """

    rate_bits_per_s: float | None = None
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    bursts: Bursts | None = None
    queue_bytes: int | None = None
    trace: Trace | None = None

    def __post_init__(self) -> None:
        if self.rate_bits_per_s is not None and not _is_finite_and_positive(self.rate_bits_per_s):
            raise MisuseError(
                f"a rate of {self.rate_bits_per_s} bit/s is impossible: give more than 0, or None for unlimited"
            )
        if self.rate_bits_per_s is not None and self.trace is not None:
            raise MisuseError("a direction has a rate or a trace, not both: leave one out")
        _require_duration("delay", self.delay_ms)
        _require_duration("jitter", self.jitter_ms)
        if not (math.isfinite(self.loss) and 0 <= self.loss < 1):
            raise MisuseError(f"a loss of {self.loss} is impossible: give the share of packets, from 0 to below 1")
        if self.queue_bytes is not None and self.queue_bytes <= 0:
            raise MisuseError(f"a queue of {self.queue_bytes} bytes is impossible: give more than 0, or None")
        if self.jitter_ms and self.mean_rate_bits_per_s is None:
            raise MisuseError("jitter needs a rate, because it is drawn anew each time the link falls idle: give both")

    @property
    def mean_rate_bits_per_s(self) -> float | None:
        return self.rate_bits_per_s if self.trace is None else self.trace.mean_rate_bits_per_s

    @property
    def mean_loss(self) -> float:
        """The share of packets that is lost in the long run, full queues aside."""
        return 1 - (1 - self.loss) * (1 - (self.bursts.mean_loss if self.bursts else 0.0))


@dataclass(frozen=True)
class LinkProfile:
    """A named link between a client and a server.

    up: from the client to the server. down: from the server to the client. outages: when neither carries anything.
    seed: of all random numbers; the same seed gives the same numbers. Raises MisuseError for an empty name and for
    outages that leave a trace no opportunity.
    """

    name: str
    description: str
    up: Direction
    down: Direction
    outages: Outages = NEVER
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.name:
            raise MisuseError("a link profile needs a name: give it one")
        for direction in (self.up, self.down):
            if direction.trace is not None:
                # Refused here, where a person reads why, and not in an emulator's process.
                TraceLine(direction.trace, self.outages)


def _is_finite_and_positive(number: float) -> bool:
    return math.isfinite(number) and number > 0


def _require_duration(what: str, duration_ms: float) -> None:
    if not (math.isfinite(duration_ms) and duration_ms >= 0):
        raise MisuseError(f"a {what} of {duration_ms} ms is impossible: give 0 or more")
