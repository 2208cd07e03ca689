"""What a person wants done while the server is out of reach, and how long it has been waited for. Pure: times are
arguments, in seconds; `conversation` gives it effect."""

from dataclasses import dataclass

LIMIT = 256
PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Offline:
    """At most `limit` tokens are written behind what is final; once there is nothing more to write, the server is
    waited for as long as `patience`: seconds in all since it last brought a token, so that a link that comes back for
    moments and brings nothing does not begin them anew. `keep` adopts what was written when the server is back,
    instead of having it judged."""

    limit: int = LIMIT
    patience: float = PATIENCE_SECONDS
    keep: bool = False


class Waited:
    """Seconds for which the server was waited for with nothing to write alone, since it last brought a token."""

    def __init__(self, passes: int):
        """`passes` is how many the server has told of, here and later: each of them has brought a token."""
        self._passes = passes
        self._seconds = 0.0

    def left(self, patience: float, passes: int) -> float:
        """What is left of so much patience."""
        if passes != self._passes:
            self._seconds, self._passes = 0.0, passes
        return patience - self._seconds

    def add(self, seconds: float) -> None:
        self._seconds += seconds
