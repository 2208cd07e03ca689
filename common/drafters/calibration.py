"""How likely the target commits what a drafter proposes, under rules that sample: learnt and fitted, not derived.

`outrider-lab run sampling` measures what became of proposals; docs/benchmarks/sampling says how far from that the
figures below are.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BEGIN = (1.15, 0.3)
"""Of log q and of noise, before anything is learnt. Fitted to the committed tokens of the shipped drafts, noise got 0.1
to 0.57 against 1.15 (docs/log.md); this is about the middle."""

_RATE = 0.2
"""The most that a token moves a weight by, as the squares begin at 1: little beside the weights, so that one odd token
does little, and enough for a draft that is always right to trust the noise within an answer."""


class NoiseTrust:
    """Under `coupled`: P(token) ~ exp(temperature * (a log q + b noise)), a conditional logit (McFadden 1974) whose
    two weights follow what the target commits, by AdaGrad (Duchi et al. 2011).

    Were the draft the target, the noise would decide and both weights grow; the worse a draft is, the less of what it
    does not know is chance, and the less the noise says. Multiplied by the temperature, the weights that fit differ
    little from one temperature to another.
    """

    def __init__(self) -> None:
        self.weights: Floats = np.array(_BEGIN)
        self._squares = np.ones(2)

    def logps(self, features: Floats) -> Floats:
        """Log-probabilities `[..., tokens]` of `features [..., tokens, 2]`: log q and noise, times the temperature."""
        scores: Floats = features @ self.weights
        scores = scores - scores.max(-1, keepdims=True)
        logps: Floats = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
        return logps

    def learn(self, features: Floats, committed: int) -> None:
        """Of `features [tokens, 2]`, those at the index `committed` were the target's choice."""
        slope = features[committed] - np.exp(self.logps(features)) @ features
        self._squares += slope**2
        self.weights = np.maximum(0.0, self.weights + _RATE * slope / np.sqrt(self._squares))


class Logistic(NamedTuple):
    """log-odds = base + slope * x"""

    base: float
    slope: float

    def logp(self, x: float) -> float:
        """The logarithm of the probability at `x`."""
        return -log(1 + exp(-(self.base + self.slope * x)))


DRAWN = (Logistic(-1.1, 0.8), Logistic(-1.1, 0.6), Logistic(-1.1, 0.6))
"""Of the first, the second, and all later siblings that were drawn, given that they are tried: x is the log-odds of the
share with which the drafter drew them, as `log_odds` gives it."""

DRAWN_BLINDLY = (0.8, 0.3, 0.16)
"""The same, before anything is known of what will be drawn: plain probabilities."""


def log_odds(share: float) -> float:
    """Of a share in (0, 1], kept finite."""
    most = 1 - 1e-4
    return log(min(share, most) / (1 - min(share, most)))


def drawn_logps(shares: list[float]) -> list[float]:
    """Log-probabilities that the target commits each sibling of a group, in their order, from the share with which
    each was drawn of what was left."""
    logps, rejected = [], 0.0
    for place, share in enumerate(shares):
        logp = DRAWN[min(place, len(DRAWN) - 1)].logp(log_odds(share))
        logps.append(rejected + logp)
        rejected += log(1.0 - exp(logp))
    return logps


def blind_logps(most: int) -> list[float]:
    """As `drawn_logps`, for `most` siblings of which nothing is known."""
    logps, rejected = [], 0.0
    for place in range(most):
        chance = DRAWN_BLINDLY[min(place, len(DRAWN_BLINDLY) - 1)]
        logps.append(rejected + log(chance))
        rejected += log(1.0 - chance)
    return logps
