"""How many of the target's last layers the draft should run here: deeper drafts better, and takes longer for a level.

Pure arithmetic on what was measured. It may not know drafts, links or how anything is measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_PASS_SECONDS = 0.03
"""What a pass is taken to last, before one was seen."""


@dataclass(frozen=True, slots=True)
class Depth:
    """`accept_length`: in rounds, measured after training; `level_seconds`: of one drafted level on this machine."""

    layers: int
    accept_length: float
    level_seconds: float


def best_depth(depths: Sequence[Depth], round_trip: float) -> Depth:
    """The depth at which a streaming answer comes fastest over a link with this round trip, in seconds.

    A token costs a level; one that the drafts miss, a share of one in `accept_length`, costs the way there and back,
    the pass that finds it out and, on average, half of the one before.
    """
    stall = round_trip + 1.5 * _PASS_SECONDS
    return min(depths, key=lambda depth: depth.level_seconds + stall / max(depth.accept_length, 1.0))
