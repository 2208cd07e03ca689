"""The interface of all drafters."""

from collections.abc import Sequence
from typing import Protocol

from common.drafters.best_first import Expansion
from common.protocol.messages import State, StateRequest
from common.protocol.views import Proposal, TreeView

NOTHING = -1
"""In place of the newest position with draft state, where none has arrived."""


class Drafter(Protocol):
    """Proposes tokens for one session at a time.

    Drafters keep their K/V or index between calls and follow the view: newly committed tokens are appended, and after
    a rewritten history only what changed is computed again.
    """

    kind: str
    state: StateRequest | None  # the draft state that it needs; None for none
    expansion: Expansion  # the bounds of its tree, which may change between calls

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        """One level of drafting: proposals that extend the view's tree, parents first; empty where nothing is worth
        proposing until the view changes or states arrive.

        `states` are the frames that arrived since the last call; the first `count` rows of each belong to positions of
        this view. A position may come twice or never. Called from one thread at a time, not always the same one.
        Raises PeerError for corrupt draft state.
        """
        ...


def rescored_by(drafter: Drafter, view: TreeView) -> TreeView:
    """The view of the drafter's last call, with the probabilities that its nodes have by what was known then: its
    `rescored`, where it knows anew in each call how likely they are, whoever proposed them."""
    rescored: TreeView = getattr(drafter, "rescored", view)
    return rescored
