"""Two depths of one draft: the shallow one drafts while the target verifies, the deep one while the link is down.

While the target verifies, speed matters more than accuracy, as its corrections come at once. Without it the deep draft,
which runs more of the target's own last layers, writes better text. It may know views and states, not how either depth
computes.
"""

from collections.abc import Sequence

from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter, rescored_by
from common.drafters.owed import OwedStates
from common.protocol.draft_state import KEY_VALUES
from common.protocol.messages import State, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.views import Proposal, TreeView

_MOST_LACKING = 0.2
"""Of all positions, the share whose draft state may have arrived without K/V where the deep draft is used. What has
neither, as a question that is asked without a link, the deep draft reads better than the shallow one."""


class DeepeningDrafter:
    def __init__(self, near: Drafter, far: Drafter, request: StateRequest):
        """`near` is the shallow draft, `far` the deep one; `request` asks for the draft state of both."""
        self.kind = near.kind
        self.state: StateRequest | None = request
        self.expansion: Expansion = near.expansion
        self.rescored = TreeView((), ())
        self._near, self._far = near, far
        self._owed = OwedStates([near, far])
        self._stated: set[int] = set()  # positions whose draft state has arrived, of any kind
        self._deep: set[int] = set()  # positions whose K/V have
        self._tokens: tuple[int, ...] = ()  # committed by the target

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        verified = view.tokens[: view.verified_length]
        self._forget(common_prefix(self._tokens, verified))
        self._tokens = verified
        for state in states:
            positions = range(state.start, state.start + state.count)
            self._stated.update(positions)
            if state.kind == KEY_VALUES:
                self._deep.update(positions)
        self._owed.add(states)
        lacking = len(self._stated) - len(self._deep)
        chosen = self._far if view.alone and lacking <= _MOST_LACKING * len(verified) else self._near
        chosen.expansion = self.expansion
        proposals = chosen.draft(view, self._owed.take(chosen))
        self.rescored = rescored_by(chosen, view)
        return proposals

    def _forget(self, keep: int) -> None:
        """Positions from `keep` on were rewritten."""
        if keep == len(self._tokens):
            return
        self._stated, self._deep = (
            {position for position in positions if position < keep} for positions in (self._stated, self._deep)
        )
        self._owed.forget(keep)
