"""The measured properties of a link beside those of its profile, and whether the two agree. Pure data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any, Self

TOLERANCE = 0.1
# Below this the machine's own delays dominate.
_SMALLEST_JUDGED_RTT_MS = 5.0


@dataclass(frozen=True)
class RoundTrips:
    """Round-trip times of small packets on an otherwise idle link, in milliseconds."""

    count: int
    p5_ms: float
    p50_ms: float
    p95_ms: float

    @classmethod
    def of(cls, times_ms: Sequence[float]) -> Self:
        """times_ms: at least two times."""
        twentieths = quantiles(times_ms, n=20, method="inclusive")
        return cls(len(times_ms), twentieths[0], median(times_ms), twentieths[-1])


@dataclass(frozen=True)
class DirectionMeasured:
    """One direction. Rates are in bits per second.

    rate: of the transmitter; under `tun` of UDP packets with their headers, under `proxy` of payload. tcp_goodput: the
    payload rate of one bulk TCP connection. loss: the share of packets lost on a link that is not full; chance_loss:
    how far it may be off by chance; both None where packets cannot be counted. Nominal values are the profile's.
    """

    rate: float | None
    nominal_rate: float | None
    tcp_goodput: float
    loss: float | None
    nominal_loss: float
    chance_loss: float | None

    @property
    def rate_error(self) -> float:
        """Relative to the nominal rate; 0 where there is none."""
        if self.rate is None or self.nominal_rate is None:
            return 0.0
        return self.rate / self.nominal_rate - 1

    @property
    def keeps_loss(self) -> bool:
        """Whether the loss is within a tenth of the nominal one, chance aside."""
        if self.loss is None or self.chance_loss is None:
            return True
        return abs(self.loss - self.nominal_loss) <= TOLERANCE * self.nominal_loss + self.chance_loss


@dataclass(frozen=True)
class Calibration:
    """The measurements of a link without its outages.

    congestion: the TCP congestion control behind tcp_goodput. late_packets: packets delivered over 1 ms
    later than was computed when they were read.
    """

    profile: str
    backend: str
    congestion: str
    rtt: RoundTrips
    nominal_rtt_ms: float
    up: DirectionMeasured
    down: DirectionMeasured
    late_packets: int | None

    @property
    def rtt_error(self) -> float:
        """The relative error of the median; 0 where the nominal value is too small to judge."""
        if self.nominal_rtt_ms < _SMALLEST_JUDGED_RTT_MS:
            return 0.0
        return self.rtt.p50_ms / self.nominal_rtt_ms - 1

    def faults(self) -> list[str]:
        """One sentence for each quantity that is more than a tenth off, and for losses that are so not by chance."""
        errors = {
            "median round trip": self.rtt_error,
            "rate up": self.up.rate_error,
            "rate down": self.down.rate_error,
        }
        return [
            *(
                f"the {what} is {error:+.0%} off what {self.profile} promises"
                for what, error in errors.items()
                if abs(error) > TOLERANCE
            ),
            *(
                f"the loss {name} is {way.loss:.2%} where {self.profile} promises {way.nominal_loss:.2%}"
                for name, way in (("up", self.up), ("down", self.down))
                if not way.keeps_loss
            ),
        ]

    def as_dict(self) -> dict[str, Any]:
        """For results in JSON."""
        return asdict(self) | {"faults": self.faults()}
