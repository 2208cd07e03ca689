"""Log-probabilities of committed tokens: what a Commit says of each, and what a server keeps of them. Pure.

It may not know logits, nor how an app is told. The values are the target's own, before bias, penalties, constraint,
temperature and filters, as vLLM's `raw_logprobs` are, so that they depend on the tokens before alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_TOP_LOGPROBS = 20
"""OpenAI's limit."""

LEAST_LOGPROB = -9999.0
"""Stands for all that is less likely, as in OpenAI's API: JSON has no infinity."""


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Of one committed token: `logp` is its own log-probability, and `top` are the likeliest tokens of its position,
    each with its own, the likeliest first. From LEAST_LOGPROB to 0."""

    logp: float
    top: tuple[tuple[int, float], ...] = ()


class UnacknowledgedLogprobs:
    """Those of an answer's tokens that its client may not have yet, for a stream that resumes it. What is kept is
    bounded by how far a server runs ahead of acknowledgements."""

    def __init__(self) -> None:
        self._rows: dict[int, TokenLogprobs] = {}

    def commit(self, start: int, rows: Sequence[TokenLogprobs]) -> None:
        """Keeps those of positions from `start` on."""
        self._rows.update(enumerate(rows, start))

    def acknowledge(self, frontier: int) -> None:
        """Forgets those of positions before `frontier`."""
        self._rows = {position: row for position, row in self._rows.items() if position >= frontier}

    def since(self, position: int) -> tuple[TokenLogprobs, ...]:
        return tuple(row for at, row in self._rows.items() if at >= position)
