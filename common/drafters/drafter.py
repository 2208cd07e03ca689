"""What every drafter is."""

from collections.abc import Sequence
from typing import Protocol

from common.drafters.best_first import Expansion
from common.protocol.messages import State, StateRequest
from common.protocol.views import Proposal, TreeView

NOTHING = -1
"""The newest position with draft state, where none has come."""


class Drafter(Protocol):
    """Proposes tokens for one session at a time.

    Drafters keep what they computed (their K/V, their index) between calls and follow the view: committed tokens
    that extend what they hold are taken over, a rewritten history costs only what changed.
    """

    kind: str
    state: StateRequest | None  # the draft state that it needs; None for none
    expansion: Expansion  # the bounds of its tree, which may change between calls

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        """One level of drafting: proposals that extend the view's tree, parents first.

        `states` are frames that came since the last call: of each the first `count` rows, of positions of this view.
        Some may come twice, and some positions never. Empty where nothing is worth proposing until the view changes or
        states come. Called from one thread at a time, not always the same. Raises PeerError for a corrupt state.
        """
        ...
