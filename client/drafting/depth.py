"""Target-layer inference: how many of the target's last layers the draft should run here. More layers draft better, and
take longer for a level.

May know drafters, trees and a clock, for timing a level. It may not know bundles or links.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from client.stats import Clock
from common.drafters.drafter import Drafter
from common.protocol.tree import TokenTree

if TYPE_CHECKING:
    from common.draft_models.noted import Worth

_PROMPT_TOKENS = 64
_WARM_UP_LEVELS = 2
_TIMED_LEVELS = 4
_RECOMPUTATION = 1.25
"""Times a level without draft state, on average: where state came, live nodes are computed again (docs/log.md)."""

PASS_S = 0.03
"""The assumed time of a pass, before one was measured."""


@dataclass(frozen=True, slots=True)
class Depth:
    """`worth`: as measured after training; `level_seconds`: of one drafted level on this machine."""

    layers: int
    worth: "Worth"
    level_seconds: float

    def token_seconds(self, round_trip: float) -> float:
        """The time of a token of a streaming answer over a link with this round trip, in seconds.

        A token costs its share of a level. One that the drafts miss also costs a round trip, the pass that corrects it
        and, on average, half of the pass before.
        """
        stall_s = round_trip + 1.5 * PASS_S
        return self.drafting_seconds + stall_s * self.miss_rate

    @property
    def miss_rate(self) -> float:
        """The share of tokens that the draft has not in its tree."""
        return 1 - self.worth.hit_rate

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
    """The median time of a few levels below a made-up prompt. The drafter forgets it with its first real view."""
    tree = _made_up(vocab_size)
    took_s = []
    for _ in range(_WARM_UP_LEVELS + _TIMED_LEVELS):
        view = tree.view()
        began = clock()
        proposals = drafter.draft(view)
        took_s.append(clock() - began)
        tree.add_server_drafted(tree.frontier, proposals)
    return median(took_s[_WARM_UP_LEVELS:]) * (1.0 if drafter.state is None else _RECOMPUTATION)


def drafts_without_state(drafter: Drafter, vocab_size: int) -> bool:
    """Whether it proposes anything below a made-up prompt, without which a level says nothing of its time."""
    return bool(drafter.draft(_made_up(vocab_size).view()))


def _made_up(vocab_size: int) -> TokenTree:
    return TokenTree([place % vocab_size for place in range(_PROMPT_TOKENS)])
