"""Another draft stands in while the link is down, where the server has not read the question: no draft state of it has
come, so that a draft which lives on that knows next to nothing of what it should answer. The one that stands in runs
layers of the target, and reads the question itself.

It may know views and positions, not how either draft computes.
"""

from collections.abc import Callable, Sequence
from functools import cache

from common.drafters.best_first import Expansion
from common.drafters.drafter import NOTHING, Drafter, rescored_by
from common.drafters.owed import OwedStates
from common.protocol.messages import State, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.views import Proposal, TreeView


class StandInDrafter:
    def __init__(self, main: Drafter, load_stand_in: Callable[[], Drafter | None]):
        """`load_stand_in` is called once, when the draft that it loads is needed; None where it does not fit."""
        self.kind = main.kind
        self.state: StateRequest | None = main.state
        self.expansion: Expansion = main.expansion
        self.rescored = TreeView((), ())
        self._main, self._load_stand_in = main, cache(load_stand_in)
        self._owed = OwedStates([main])
        self._newest = NOTHING  # the last position whose draft state has arrived
        self._tokens: tuple[int, ...] = ()  # committed by the target

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        verified = view.tokens[: view.verified_length]
        keep = common_prefix(self._tokens, verified)
        if keep < len(self._tokens):
            self._newest = min(self._newest, keep - 1)
            self._owed.forget(keep)
        self._tokens = verified
        self._newest = max([self._newest, *(state.start + state.count - 1 for state in states)])
        self._owed.add(states)
        is_unread = view.alone and self._newest < view.prompt_length - 1
        stand_in = self._load_stand_in() if is_unread else None
        chosen = self._main if stand_in is None else stand_in
        chosen.expansion = self.expansion
        proposals = chosen.draft(view, self._owed.take(chosen))
        self.rescored = rescored_by(chosen, view)
        return proposals
