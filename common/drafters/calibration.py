"""Calibration: the probability that the target commits a proposal, under rules that sample. It is learnt or fitted.

`outrider-lab run sampling` measures how often proposals are committed; docs/benchmarks/sampling compares these shares
with the predictions of the constants below.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BEGIN = (1.15, 0.3)
"""The initial weights of log q and of noise. Fitted to the committed tokens of the shipped drafts, the weight of noise
was 0.1 to 0.57 where that of log q was 1.15 (docs/log.md); this is about the middle."""

_RATE = 0.2
"""The learning rate: the most that one token changes a weight, as the sum of squared gradients starts at 1. It is small
beside the weights, so that one unlikely token has little effect, and large enough that a draft that is always right
learns within one answer to rely on the noise."""


class NoiseTrust:
    """Under `coupled`: P(token) ~ exp(temperature * (a log q + b noise)), a conditional logit (McFadden 1974) whose
    two weights follow what the target commits, by AdaGrad (Duchi et al. 2011).

    If the draft had the target's distribution, the noise would decide and both weights would grow; the worse a draft
    is, the less the noise predicts. With the factor of the temperature, the fitted weights are nearly the same at all
    temperatures.
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
        """One AdaGrad step: of `features [tokens, 2]`, the target committed the token at index `committed`."""
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
"""The probability that a sampled sibling is accepted, if it is tried: of the first, the second, and all later ones. x
is the log-odds (`log_odds`) of the share with which the drafter sampled it."""

DRAWN_BLINDLY = (0.8, 0.3, 0.16)
"""The same before the siblings are sampled: plain probabilities."""


def log_odds(share: float) -> float:
    """The log-odds of a share in (0, 1], kept finite."""
    most = 1 - 1e-4
    return log(min(share, most) / (1 - min(share, most)))


def drawn_logps(shares: list[float]) -> list[float]:
    """Log-probabilities that the target commits each sibling of a group, in their order. `shares`: the probability with
    which each was sampled, among the tokens that the siblings before it left."""
    logps, rejected = [], 0.0
    for index, share in enumerate(shares):
        logp = DRAWN[min(index, len(DRAWN) - 1)].logp(log_odds(share))
        logps.append(rejected + logp)
        rejected += log(1.0 - exp(logp))
    return logps


def blind_logps(most: int) -> list[float]:
    """As `drawn_logps`, for `most` siblings that are not sampled yet."""
    logps, rejected = [], 0.0
    for index in range(most):
        probability = DRAWN_BLINDLY[min(index, len(DRAWN_BLINDLY) - 1)]
        logps.append(rejected + log(probability))
        rejected += log(1.0 - probability)
    return logps
