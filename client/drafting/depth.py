"""Target-layer inference: how many of the target's last layers the draft should run here. More layers draft better, and
take longer for a level.

May know drafters, trees and a clock, for timing a level. It may not know bundles or links.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, TypeVar

from common.clock import Clock
from common.drafters.drafter import Drafter
from common.protocol.tree import TokenTree

if TYPE_CHECKING:
    from common.draft_models.measured_acceptance import MeasuredAcceptance

_PROMPT_TOKENS = 64
_PROMPTS, _LEVELS = 6, 3  # made-up prompts, and the most levels below each
_RECOMPUTATION = 1.25
"""Times a level without draft state, on average: where state came, live nodes are computed again (docs/log.md)."""

PASS_S = 0.03
"""The assumed time of a pass, before one was measured."""


@dataclass(frozen=True, slots=True)
class Depth:
    """`worth`: as measured after training; `level_seconds`: of one drafted level on this machine."""

    layers: int
    worth: "MeasuredAcceptance"
    level_seconds: float

    def token_seconds(self, round_trip: float) -> float:
        """The time of a token of a streaming answer over a link with this round trip, in seconds, by the mean speed of
        the texts on which the draft was measured.

        A token costs its share of a level. One that the drafts miss also costs a round trip, the pass that corrects it
        and, on average, half of the pass before. Infinite where no level could be timed.
        """
        if math.isinf(self.level_seconds):
            return math.inf
        stall_s = round_trip + 1.5 * PASS_S
        return 1 / fmean(1 / (self.drafting_seconds + stall_s * missed) for missed in self.worth.miss_rates)

    @property
    def drafting_seconds(self) -> float:
        """A token's share of a level."""
        return self.level_seconds / self.worth.tokens_per_level


Known = TypeVar("Known", bound=Depth)
"""A depth and whatever else its caller knows of it."""


def best_depth(depths: Iterable[Known], round_trip: float) -> Known:
    """The depth at which a streaming answer comes fastest over a link with this round trip, in seconds. Of `depths`,
    only the best so far is kept in memory."""
    return min(depths, key=lambda depth: depth.token_seconds(round_trip))


def level_seconds(drafter: Drafter, vocab_size: int, clock: Clock) -> float:
    """The least time of a level below made-up prompts, for other programs may run meanwhile; infinite where none can be
    timed. The drafter forgets them with its first real view."""
    took_s = [seconds for first in range(_PROMPTS) for seconds in _levels(drafter, vocab_size, first, clock)]
    return min(took_s, default=math.inf) * (1.0 if drafter.state is None else _RECOMPUTATION)


def _levels(drafter: Drafter, vocab_size: int, first: int, clock: Clock) -> Iterator[float]:
    """The times of levels that proposed something, behind the first, which reads the prompt: one that proposes nothing,
    as below a full tree, computes nothing."""
    tree = _made_up(vocab_size, first)
    tree.add_server_drafted(tree.frontier, drafter.draft(tree.view()))
    for _ in range(_LEVELS):
        view = tree.view()
        began = clock()
        proposals = drafter.draft(view)
        took_s = clock() - began
        if not proposals:
            return
        yield took_s
        tree.add_server_drafted(tree.frontier, proposals)


def drafts_without_state(drafter: Drafter, vocab_size: int) -> bool:
    """Whether it proposes anything below a made-up prompt, without which a level says nothing of its time."""
    return bool(drafter.draft(_made_up(vocab_size).view()))


def _made_up(vocab_size: int, first: int = 0) -> TokenTree:
    return TokenTree([(first + index) % vocab_size for index in range(_PROMPT_TOKENS)])
