"""What a link is like, as validated data. Knows no sockets, no clock and no particular profile."""

import math
from dataclasses import dataclass

from common.protocol.errors import MisuseError


@dataclass(frozen=True)
class Direction:
    """One way along a link.

    rate_bits_per_s: bits of payload per second; None is unlimited.
    delay_ms, jitter_ms: centre and standard deviation of the one-way delay, a normal draw whose negative values
    become 0. Raises MisuseError for values that no link can have.
    """

    rate_bits_per_s: float | None = None
    delay_ms: float = 0.0
    jitter_ms: float = 0.0

    def __post_init__(self) -> None:
        if self.rate_bits_per_s is not None and not _is_finite_and_positive(self.rate_bits_per_s):
            raise MisuseError(
                f"a rate of {self.rate_bits_per_s} bit/s is impossible: give more than 0, or None for unlimited"
            )
        _require_duration("delay", self.delay_ms)
        _require_duration("jitter", self.jitter_ms)
        if self.jitter_ms and self.rate_bits_per_s is None:
            raise MisuseError("jitter needs a rate, because it is drawn anew each time the link falls idle: give both")


@dataclass(frozen=True)
class LinkProfile:
    """A named link between a client and a server.

    up: from the client to the server. down: from the server to the client. seed: what the random draws derive
    from; the same seed gives the same draws. Raises MisuseError for an empty name.
    """

    name: str
    description: str
    up: Direction
    down: Direction
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.name:
            raise MisuseError("a link profile needs a name: give it one")


def _is_finite_and_positive(number: float) -> bool:
    return math.isfinite(number) and number > 0


def _require_duration(what: str, duration_ms: float) -> None:
    if not (math.isfinite(duration_ms) and duration_ms >= 0):
        raise MisuseError(f"a {what} of {duration_ms} ms is impossible: give 0 or more")
