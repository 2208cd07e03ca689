"""The acceptance estimator: tokens per second of an answer and the share of tokens that its drafts miss, for idle
policies and the verify budget.

Pure; times in seconds on the caller's clock. Knows tokens and times, not trees.
"""

import math

_MEMORY = 0.9
"""Decay: the weight that remains of earlier samples after each new one."""

_FIRST_MISSES, _FIRST_HITS = 0.2, 1.0
"""The prior: one token in six is missed."""


class AcceptanceEstimator:
    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0
        self._misses = _FIRST_MISSES
        self._hits = _FIRST_HITS
        self._last_commit: float | None = None  # of this answer

    @property
    def tokens_per_s(self) -> float:
        """Committed tokens per second, recently. Infinite until it is known, so that nothing is worth waiting for."""
        return self._tokens / self._seconds if self._seconds else math.inf

    @property
    def miss_rate(self) -> float:
        """The share of tokens that were not among the children of the node before."""
        return self._misses / (self._misses + self._hits)

    @property
    def max_acceptance(self) -> float:
        """An upper bound for the probability that the children of one token hold the next, whatever their drafter
        claims: halfway from the recent acceptance rate to 1."""
        return 1 - self.miss_rate / 2

    def answer_began(self) -> None:
        """An answer begins. The time to its first token is no sample."""
        self._last_commit = None

    def committed(self, tokens: int, now: float) -> None:
        if self._last_commit is not None:
            self._tokens = _MEMORY * self._tokens + tokens
            self._seconds = _MEMORY * self._seconds + now - self._last_commit
        self._last_commit = now

    def nodes_judged(self, hits: int, missed: bool) -> None:
        """A verify walk accepted `hits` nodes. `missed`: then there were children, but none with the target's token."""
        self._hits = _MEMORY * self._hits + hits
        self._misses = _MEMORY * self._misses + missed
