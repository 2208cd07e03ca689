"""What a drafted level takes on this machine, found by drafting a few. May know drafters and trees, and a clock."""

from statistics import median

from client.stats import Clock
from common.drafters.drafter import Drafter
from common.protocol.tree import TokenTree

_TOKENS = 64
_WARM_UP = 2
_LEVELS = 4
_RENEWED = 1.25
"""Times a level without draft state, on average: where state came, live nodes are computed again (docs/log.md)."""


def level_seconds(drafter: Drafter, vocab_size: int, clock: Clock) -> float:
    """The median of a few levels below a made-up prompt. The drafter forgets it with its first real view."""
    tree = TokenTree([place % vocab_size for place in range(_TOKENS)])
    took = []
    for _ in range(_WARM_UP + _LEVELS):
        view = tree.view()
        began = clock()
        proposals = drafter.draft(view)
        took.append(clock() - began)
        tree.add_server_drafted(tree.frontier, proposals)
    return median(took[_WARM_UP:]) * (1.0 if drafter.state is None else _RENEWED)
