"""A fake factory of server drafters, which uses no model, and a worker without a thread."""

from collections.abc import Callable, Sequence
from typing import Self, TypeVar

import numpy as np

from common.pacing import Timed
from common.protocol.messages import StateRequest
from common.protocol.views import Proposal, TreeView
from server.sessions.entry import SessionEntry
from server.sessions.sessions import Sessions
from tests.server.fake_target import FakeTarget
from tests.server.proposers import Proposer

Result = TypeVar("Result")


class Helpers:
    """Makes the server drafters of all sessions; each drafts as `propose` does.

    Where a fake target is given, the slots that a drafter receives must hold the first tokens of its view.
    """

    def __init__(self, propose: Proposer, fake_target: FakeTarget | None = None):
        self.made: list[StateRequest | None] = []
        self.views: list[TreeView] = []
        self._propose = propose
        self._fake_target = fake_target

    def make(self, state_request: StateRequest | None) -> Self:
        self.made.append(state_request)
        return self

    def draft(self, view: TreeView, slots: np.ndarray) -> Sequence[Proposal]:
        self.views.append(view)
        if self._fake_target is not None:
            held = [self._fake_target._held[slot] for slot in slots.tolist()]
            assert held == list(view.tokens[: len(held)])
            assert len(held) == len(view.tokens) - 1
        return self._propose(view)


def one_level(sessions: Sessions, helpers: Helpers, seconds: float = 0.001) -> SessionEntry | None:
    """Drafts one level; returns the entry of the session that it was for."""
    asked = sessions.claim_draft_task()
    if asked is None:
        return None
    sessions.add_drafted_level(asked, asked.draft(helpers), seconds)
    return asked.owner


class InPlace:
    """A worker that computes in the calling task. Records the costs of its tasks under the thread's name, and counts
    the rests before the first task and between two."""

    def __init__(self, costs: dict[str, list[float]], name: str):
        self._costs = costs.setdefault(name, [])
        self.rests = [0]

    def rested(self) -> None:
        self.rests[-1] += 1

    async def run(
        self, cost: float, compute: Callable[[], Result], before: Callable[[], object] | None = None
    ) -> tuple[Result, Timed]:
        self._costs.append(cost)
        self.rests.append(0)
        if before is not None:
            before()
        return compute(), Timed(0.0, overran=False)

    def close(self) -> None:
        """Nothing is running."""
