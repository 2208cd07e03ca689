"""The retry-after estimator: when a refused client should try again, from the measured duration of answers.

Pure: times in seconds on the caller's clock. It may not know sessions.
"""

_GAIN = 1 / 8
_UNKNOWN_SECONDS = 2.0
"""The least assumed duration of an answer before one has ended whole."""

_MIN_WAIT_S = 0.1


class RetryAfterEstimator:
    def __init__(self) -> None:
        self._is_measured = False  # before an answer has ended whole, those that were cut off are the least estimates
        self._answer_seconds = self.answer_tokens = 0.0
        self._next_turn = 0.0

    def answer_ended(self, seconds: float, tokens: float) -> None:
        """An answer has ended, after `seconds` and with `tokens` tokens."""
        if self._is_measured:
            self._answer_seconds += _GAIN * (seconds - self._answer_seconds)
            self.answer_tokens += _GAIN * (tokens - self.answer_tokens)
        else:
            self._raise_to(seconds, tokens)
            self._is_measured = True

    def answer_cut(self, seconds: float, tokens: float) -> None:
        """An answer was cut off after `seconds` and `tokens` tokens. Whole, it would have had more of both, so that it
        may raise the estimates and never lowers them."""
        if self._is_measured:
            self.answer_ended(max(seconds, self._answer_seconds), max(tokens, self.answer_tokens))
        else:
            self._raise_to(seconds, tokens)

    def _raise_to(self, seconds: float, tokens: float) -> None:
        self._answer_seconds = max(seconds, self._answer_seconds)
        self.answer_tokens = max(tokens, self.answer_tokens)

    @property
    def answer_seconds(self) -> float:
        """The usual duration of an answer."""
        return self._answer_seconds if self._is_measured else max(_UNKNOWN_SECONDS, self._answer_seconds)

    def retry_after_s(self, running: int, now: float) -> float:
        """Seconds after which a client that is refused now may find room: each refusal names a later time than the
        last, but never one when all running answers have ended."""
        turn = max(now, self._next_turn) + self.answer_seconds / max(1, running)
        self._next_turn = min(turn, now + self.answer_seconds)
        return max(_MIN_WAIT_S, self._next_turn - now)
