"""How fast an answer comes and how often its drafts miss: what a session's idle policy weighs.

Pure; times in seconds on the caller's clock. Knows tokens and times, not trees.
"""

import math

_MEMORY = 0.9
"""What one commit leaves of those before it."""

_FIRST_MISSES, _FIRST_HITS = 0.2, 1.0
"""What is believed before anything is known: one token in six is missed."""


class AcceptanceEstimator:
    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0
        self._misses = _FIRST_MISSES
        self._hits = _FIRST_HITS
        self._last_commit: float | None = None  # of this answer

    @property
    def tokens_per_s(self) -> float:
        """Committed tokens per second of late; infinite, so that nothing is worth waiting for, until it is known."""
        return self._tokens / self._seconds if self._seconds else math.inf

    @property
    def miss_rate(self) -> float:
        """The share of tokens that were not among the nodes below the one before."""
        return self._misses / (self._misses + self._hits)

    @property
    def max_acceptance(self) -> float:
        """The most that the nodes below one token are believed to hold the next, whatever their drafter says: halfway
        from what was so of late to certainty."""
        return 1 - self.miss_rate / 2

    def answer_began(self) -> None:
        """An answer begins; how long its first token takes says nothing of those behind it."""
        self._last_commit = None

    def committed(self, tokens: int, now: float) -> None:
        if self._last_commit is not None:
            self._tokens = _MEMORY * self._tokens + tokens
            self._seconds = _MEMORY * self._seconds + now - self._last_commit
        self._last_commit = now

    def nodes_judged(self, hits: int, missed: bool) -> None:
        """A walk went down `hits` nodes, and then found none below the last, or none with the target's token."""
        self._hits = _MEMORY * self._hits + hits
        self._misses = _MEMORY * self._misses + missed
