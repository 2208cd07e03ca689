"""The terms that a server offers to every session: the sizes of its target, and limits that protect the server."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.protocol.constraint import Constrain, no_constraints
from common.protocol.draft_state import StateKind
from common.protocol.ends import Detokenise
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, StateRequest

StateKinds = Callable[[StateRequest], Sequence[StateKind]]
"""The kinds of draft state for a request; of equally new positions, the first kind is sent first. Raises PeerError for
an unknown draft or a number of layers that it does not offer."""


def no_state(request: StateRequest) -> Sequence[StateKind]:
    """The answer of a server whose drafts need no draft state. Raises PeerError."""
    raise PeerError(f"this server sends no draft state for the draft model '{request.draft}'", FailureCode.INVALID)


MAX_NODES = 512
"""Live nodes of one tree that a client may grow, by default."""


@dataclass(frozen=True)
class Terms:
    fingerprint: str  # of the target
    vocab_size: int
    context: int  # tokens of the longest sequence
    end_tokens: frozenset[int]
    detokenise: Detokenise
    constrain: Constrain = no_constraints
    idle: str = "eager"  # the policy of sessions that name none
    run_ahead: int = 128  # tokens committed past what the client has acknowledged
    max_nodes: int = MAX_NODES
    server_drafts: bool = False  # whether the server can draft for sessions
    max_server_drafted_nodes: int = 256  # live nodes up to which the server drafts for a session
    state_kinds: StateKinds = no_state

    def max_names(self, ahead: int) -> int:
        """The most node ids of one session that may still be referred to: a few for each node and for each of `ahead`
        unacknowledged tokens."""
        return 4 * (self.max_nodes + self.max_server_drafted_nodes + max(self.run_ahead, ahead))
