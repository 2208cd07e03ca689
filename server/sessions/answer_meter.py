"""What is measured of one answer while it is made. Pure: times in seconds on the caller's clock."""

from dataclasses import dataclass

from server.events import Committed


@dataclass(slots=True)
class AnswerMeter:
    began: float  # when the question came
    prompt_tokens: int  # that came with it
    tokens: int = 0
    passes: int = 0
    first_token_seconds: float | None = None
    _last: float | None = None

    def committed(self, tokens: int, now: float) -> Committed:
        is_first = self._last is None
        waited = now - (self.began if self._last is None else self._last)
        if is_first:
            self.first_token_seconds = waited
        self.tokens += tokens
        self._last = now
        return Committed(tokens, waited, is_first)
