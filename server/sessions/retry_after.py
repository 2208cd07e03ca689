"""How long answers take and how long they become, as measured: who has to wait is told for how long.

Pure: times in seconds on the caller's clock. It may not know sessions.
"""

_GAIN = 1 / 8
_UNKNOWN_SECONDS = 2.0
"""What an answer is believed to take before one has ended."""

_LEAST_WAIT = 0.1


class Turnover:
    def __init__(self) -> None:
        self._seconds: float | None = None
        self.tokens = 0.0  # of an answer; 0 until one has ended
        self._next_turn = 0.0

    def ended(self, seconds: float, tokens: int) -> None:
        """An answer came to its end, after so long and with so many tokens."""
        if self._seconds is None:
            self._seconds, self.tokens = seconds, float(tokens)
        else:
            self._seconds += _GAIN * (seconds - self._seconds)
            self.tokens += _GAIN * (tokens - self.tokens)

    @property
    def seconds(self) -> float:
        """What an answer usually takes."""
        return _UNKNOWN_SECONDS if self._seconds is None else self._seconds

    def wait(self, running: int, now: float) -> float:
        """Seconds after which one who is turned away now may find room: each time a little later than who was turned
        away before, but never later than all that run now have ended."""
        turn = max(now, self._next_turn) + self.seconds / max(1, running)
        self._next_turn = min(turn, now + self.seconds)
        return max(_LEAST_WAIT, self._next_turn - now)
