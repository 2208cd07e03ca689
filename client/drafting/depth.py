"""How many of the target's last layers the draft should run here: deeper drafts better, and takes longer for a level.

Pure arithmetic on what was measured. It may not know drafts, links or how anything is measured.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

_PASS_SECONDS = 0.03
"""What a pass is taken to last, before one was seen."""


@dataclass(frozen=True, slots=True)
class Depth:
    """`accept_length`: in rounds, measured after training; `level_seconds`: of one drafted level on this machine."""

    layers: int
    accept_length: float
    level_seconds: float


Known = TypeVar("Known", bound=Depth)
"""A depth and whatever else its caller knows of it."""


def best_depth(depths: Iterable[Known], round_trip: float) -> Known:
    """The depth at which a streaming answer comes fastest over a link with this round trip, in seconds.

    A token costs a level; one that the drafts miss, a share of one in `accept_length`, costs the way there and back,
    the pass that finds it out and, on average, half of the one before. Of `depths`, none but the best so far is held.
    """
    stall = round_trip + 1.5 * _PASS_SECONDS
    return min(depths, key=lambda depth: depth.level_seconds + stall / max(depth.accept_length, 1.0))
