"""One session with what the server holds for it, as data. It may not know passes, streams or any other session."""

from dataclasses import dataclass, field
from typing import Protocol

from common.protocol.messages import FromServer, StateRequest
from common.protocol.server_session import ServerSession
from common.protocol.transitions import ServerState
from server.passes.scheduler import Demand
from server.passes.sequence import HeldSequence
from server.passes.server_drafting import Aide
from server.sessions.answer_meter import AnswerMeter
from server.sessions.late_frames import LateFrames

SessionKey = tuple[str, str]
"""What a session is found by: the name of the token that opened it, and its id. So another token that knows the id
finds nothing, and whose token was given another secret finds his own."""


class Listener(Protocol):
    """Where a session's messages go: one client's stream."""

    @property
    def client(self) -> str:
        """Who it is, by the name of the token that its stream bears; empty where none is asked for."""
        ...

    @property
    def ended(self) -> bool: ...

    def put(self, message: FromServer) -> None:
        """Ends by itself where too much waits to be read."""

    def end(self) -> None:
        """Nothing more will come."""


@dataclass(eq=False, slots=True)
class Member:
    session: ServerSession
    sequence: HeldSequence
    listener: Listener
    served: int  # the number of the last pass that it took part in
    wanted: StateRequest | None  # the draft state that it is sent
    fed: int = 0  # the number of its last claim of draft state, among those of all sessions
    active: float = 0.0  # when it last got a stream, a question, a token or draft state, in seconds
    late: LateFrames = field(default_factory=LateFrames)
    meter: AnswerMeter | None = None  # of the answer that is being made
    silent: bool = False  # its client has closed its side of the stream
    aide: Aide | None = None  # what drafts for it here, once it does
    in_pass: bool = False
    unserved: bool = True  # no pass has worked on what its client asked on its newest stream
    assisted: int = 0  # the number of its last level drafted here, among those of all sessions
    assisted_turn: int = -1

    @property
    def client(self) -> str:
        return self.listener.client

    @property
    def key(self) -> SessionKey:
        return self.client, self.session.id

    @property
    def demand(self) -> Demand:
        tree = self.session.tree
        return Demand(tree.frontier - self.session.processed, len(tree), self.served)

    @property
    def to_compute(self) -> int:
        """Tokens below the root that passes have to compute, whoever dropped what was computed of them before."""
        return self.session.tree.frontier - 1 - self.session.processed

    @property
    def arrived_states(self) -> int:
        """State frames that its client has acknowledged on this stream."""
        return 0 if self.session.feed is None else self.session.feed.arrived

    @property
    def is_running(self) -> bool:
        return self.session.state is not ServerState.FINISHED

    def release(self) -> None:
        """Gives back all that is held for it."""
        self.sequence.cut(0)
        self.aide = None
