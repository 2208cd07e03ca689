"""The learning rate of a step: pure arithmetic on the step and the length of the run.

Nothing else may live here. Time never enters, so that a resumed run takes the same steps.
"""

from __future__ import annotations

import math

WARM_UP_SHARE = 0.05
LONGEST_WARM_UP = 100
FINAL_SHARE = 0.05
"""Warm-up over 50 steps and a decay to a twentieth of the peak rate are the published recipe's (arXiv 2410.03804)."""


def rate_share(step: int, steps: int) -> float:
    """The share of the peak rate for a step, counted from 0: a linear rise, then half a cosine."""
    warm_up = min(LONGEST_WARM_UP, math.ceil(WARM_UP_SHARE * steps))
    if step < warm_up:
        return (step + 1) / warm_up
    done = (step - warm_up) / max(1, steps - warm_up)
    return FINAL_SHARE + (1 - FINAL_SHARE) * (1 + math.cos(math.pi * done)) / 2
