"""One session and what the server holds for it, as data. It plans and runs no pass, and knows no other session."""

import math
from dataclasses import dataclass, field, replace
from typing import Protocol

from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, FinishReason, FromServer, Open, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.server_session import ServerSession
from common.protocol.transitions import ServerState
from common.protocol.views import TargetChoices
from server.events import TokensCommitted
from server.passes.scheduler import Demand
from server.passes.sequence import HeldSequence
from server.passes.server_drafting import ServerDrafter
from server.refusal import AdmissionRefusedError
from server.sessions.computed_tokens import ComputedTokens
from server.sessions.late_frames import LateFrames

SessionKey = tuple[str, str]
"""The key of a session: the name of the token that opened it, and its id. So a client with another token cannot resume
it, and a client whose token got a new secret still can."""

YIELDS_AFTER_S = 0.25
"""How long an answer may wait for its client before it can be evicted for others: about a round trip and a round of
drafting on a slow link."""

_RECENT_S = 1.0
"""An answer without a token for longer has a client that is not there, or over whose link one pass makes no
difference."""

_NOT_ONE_TOKEN = "the server's device has no memory for even one more token of this answer; shorten the prompt"


class MessageSink(Protocol):
    """Where a session's messages go: one client's stream."""

    @property
    def client(self) -> str:
        """The name of the token that the stream bears; empty where none is asked for."""
        ...

    @property
    def ended(self) -> bool: ...

    def put(self, message: FromServer) -> None:
        """Ends the stream by itself where too many messages wait to be read."""

    def end(self) -> None:
        """Nothing more will come."""


@dataclass(slots=True)
class AnswerMeter:
    """What is measured of one answer while it is made. Times in seconds on the caller's clock."""

    began: float  # when the request came
    prompt_tokens: int  # that came with it
    before: int  # tokens of the answer among them, committed for another session or kept by the client
    tokens: int = 0
    passes: int = 0
    first_token_seconds: float | None = None
    left_out_s: float = 0.0  # in which its client held it up and it gave way to others
    _last: float | None = None
    _to_leave_out_s: float = 0.0  # once it goes on
    _waited_until_s: float = 0.0

    @property
    def answer_tokens(self) -> int:
        """Of the whole answer so far, whoever committed them."""
        return self.before + self.tokens

    def committed(self, tokens: int, now: float) -> TokensCommitted:
        is_first = self._last is None and not self.before
        if is_first:
            self.first_token_seconds = now - self.began
        waited = self.first_token_seconds if self._last is None else now - self._last - self._to_leave_out_s
        self.tokens += tokens
        self._last = now
        self.left_out_s, self._to_leave_out_s = self.left_out_s + self._to_leave_out_s, 0.0
        return TokensCommitted(tokens, waited, is_first)

    def waited_for_client(self, since: float, now: float) -> None:
        """Its client does something at last. What that took beyond the time after which an answer gives way to others
        is no time of the answer's."""
        self._to_leave_out_s += max(0.0, now - max(since, self._waited_until_s) - YIELDS_AFTER_S)
        self._waited_until_s = now


@dataclass(eq=False, slots=True)
class SessionEntry:
    session: ServerSession
    sequence: HeldSequence
    sink: MessageSink
    last_pass: int  # the number of the last pass that it took part in
    state_request: StateRequest | None  # the draft state that it is sent
    last_state_claim: int = 0  # the number of its last claim of draft state, among those of all sessions
    last_active_s: float = 0.0  # when it last got a stream, a request, a token, draft state or a refusal, in seconds
    opened_s: float = 0.0  # when its newest stream came, in seconds
    frontier_when_opened: int = -1  # of the last Open since which the answer has gained tokens
    late_frames: LateFrames = field(default_factory=LateFrames)
    computed: ComputedTokens = field(default_factory=ComputedTokens)
    meter: AnswerMeter | None = None  # of the answer that is being made
    half_closed: bool = False  # its client has closed its side of the stream
    drafter: ServerDrafter | None = None
    last_choices: tuple[int, TargetChoices | None] = (0, None)  # of its last pass, and the session's epoch then
    in_pass: bool = False
    in_preparation: bool = False  # its next request's constraint is being compiled
    waits: bool = False  # for another session that computes the same tokens
    waited_for_since: float = math.inf  # when the oldest request came of those that wait for it now, in seconds
    awaits_first_pass: bool = True  # no pass has computed anything for the request of its newest stream
    last_drafted_level: int = 0  # the number of its last level drafted here, among those of all sessions
    last_drafted_turn: int = -1
    most_tokens: int | None = None  # of a pass, since the device had no memory for more; 0: not even for one

    @property
    def client(self) -> str:
        return self.sink.client

    @property
    def key(self) -> SessionKey:
        return self.client, self.session.id

    @property
    def demand(self) -> Demand:
        tree = self.session.tree
        # A group below the root is verified by the first pass that can, whatever it costs: whether it is verified must
        # not depend on what was drawn for it.
        group = len(tree.root.children) if tree.grouped else 0
        held = self.session.processed
        chain, nodes = tree.frontier - held, len(tree)
        if self.most_tokens is not None:
            most = max(1, self.most_tokens)
            nodes = min(nodes, max(0, most - chain))
            chain, group = min(chain, most), min(group, nodes)
        return Demand(chain, nodes, self.last_pass, group, held, min(self.requested_at_s, self.waited_for_since))

    @property
    def requested_at_s(self) -> float:
        """When the request of its answer came, in seconds."""
        return self.meter.began if self.meter is not None else self.last_active_s

    def continues(self, opened: Open) -> bool:
        """Whether this Open goes on with its answer. Text that the client kept unverified may follow what it has of the
        answer: all of it, or at least one token more than came with the last such Open, so that nobody goes on for
        ever."""
        session = self.session
        if session.resumes(opened):
            return True
        if session.finished is not None and session.finished.reason is FinishReason.CANCELLED:
            return False
        shared = common_prefix(session.tree.tokens, opened.tokens)
        least = min(session.tree.frontier, max(session.prefill_length + 1, session.acked))
        return shared >= least and session.resumes(replace(opened, tokens=opened.tokens[:shared]))

    def heard(self, now: float, *, was_away: bool = False) -> None:
        """Its client sends something, or comes back to it."""
        long_ago = now - self.last_active_s > YIELDS_AFTER_S
        if self.meter is not None and long_ago and (was_away or self.session.waits_for_its_client):
            self.meter.waited_for_client(self.last_active_s, now)

    @property
    def may_adopt(self) -> bool:
        """Whether K/V of its prompt that others computed are of use now: before its answer's first pass, and while it
        waits for them."""
        return self.to_compute > 0 and (self.waits or self.meter is None or not self.meter.passes)

    @property
    def to_compute(self) -> int:
        """Tokens before the root that passes still have to compute, again or for the first time."""
        return self.session.tree.frontier - 1 - self.session.processed

    def recently_decoded(self, now: float) -> bool:
        """Whether its answer has begun and it was active within the last second: it probably wants a pass soon."""
        return self.is_running and self.to_compute == 0 and now - self.last_active_s < _RECENT_S

    @property
    def choices(self) -> TargetChoices | None:
        """What the target chose in its last pass, if that was over the sequence that it has now."""
        epoch, choices = self.last_choices
        return choices if epoch == self.session.epoch else None

    @property
    def acknowledged_states(self) -> int:
        """State frames that its client has acknowledged on this stream."""
        return 0 if self.session.feed is None else self.session.feed.arrived

    @property
    def is_running(self) -> bool:
        return self.session.state is not ServerState.FINISHED

    def out_of_memory(self, tokens: int, refusal: AdmissionRefusedError, now: float) -> PeerError | None:
        """The device had no memory for a pass of so many of its tokens. What ends its stream; None where it is given
        half as many first. A session for which there is none for a single token, twice in a row, ends for good."""
        was_told, self.most_tokens = self.most_tokens == 0, tokens // 2
        if tokens > 1:
            return None
        self.last_active_s = now
        return PeerError(_NOT_ONE_TOKEN, FailureCode.INTERNAL) if was_told else refusal

    def pass_fitted(self) -> None:
        """A pass of its tokens was computed: after a shortage it may have one more in the next."""
        if self.most_tokens is not None:
            self.most_tokens += 1

    def park(self) -> None:
        """Gives back the K/V of a finished session, which a next turn computes again."""
        self.session.park()
        self.computed.clear()
        self.release()

    def release(self) -> None:
        """Gives back everything that is held for it."""
        self.sequence.cut(0)
        self.drafter = None
