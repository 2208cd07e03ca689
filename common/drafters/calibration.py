"""How likely the target commits what a drafter proposes by a rule that samples: fitted, not derived.

`outrider-lab run sampling` measures the acceptances and fits these numbers; docs/benchmarks/sampling holds the fit.
"""

from math import exp, log
from typing import NamedTuple


class Logistic(NamedTuple):
    """log-odds = base + slope * x"""

    base: float
    slope: float

    def logp(self, x: float) -> float:
        """The logarithm of the probability at `x`."""
        odds = -(self.base + self.slope * x)
        return -log(1 + exp(odds)) if odds < 30 else -odds


LEADER = Logistic(0.3, 1.0)
"""Of the best perturbed candidate: x is how far it leads the second."""

FOLLOWERS = (Logistic(-0.3, -1.0), Logistic(-1.0, -1.0), Logistic(-1.5, -1.0))
"""Of the second, the third, and all later ones: x is how far the best one leads them."""

DRAWN = (Logistic(2.0, 0.5), Logistic(-0.5, 0.3), Logistic(-1.0, 0.3))
"""Of the first, the second, and all later siblings that were drawn, given that they are tried: x is the logarithm of
the share with which the drafter drew them."""

DRAWN_BLINDLY = (0.8, 0.3, 0.2)
"""The same, before anything is known of what will be drawn: plain probabilities."""


def perturbed_logps(scores: list[float]) -> list[float]:
    """Log-probabilities that the target commits each candidate of one node, best first, from `scores`: the draft's
    log-probability plus the noise that it shares with the target. They never rise from one to the next."""
    if not scores:
        return []
    lead = scores[0] - scores[1] if len(scores) > 1 else 30.0
    logps = [LEADER.logp(lead)]
    for rank, score in enumerate(scores[1:]):
        follower = FOLLOWERS[min(rank, len(FOLLOWERS) - 1)]
        logps.append(min(logps[-1], follower.logp(scores[0] - score)))
    return logps


def drawn_logps(shares: list[float]) -> list[float]:
    """Log-probabilities that the target commits each sibling of a group, in their order, from the share with which
    each was drawn of what was left."""
    logps, rejected = [], 0.0
    for place, share in enumerate(shares):
        logp = DRAWN[min(place, len(DRAWN) - 1)].logp(log(share))
        logps.append(rejected + logp)
        rejected += log(max(1e-9, 1.0 - exp(logp)))
    return logps


def blind_logps(most: int) -> list[float]:
    """As `drawn_logps`, for `most` siblings of which nothing is known."""
    logps, rejected = [], 0.0
    for place in range(most):
        chance = DRAWN_BLINDLY[min(place, len(DRAWN_BLINDLY) - 1)]
        logps.append(rejected + log(chance))
        rejected += log(1.0 - chance)
    return logps
