"""The client's half of one session: the committed tokens, the live tree, and the messages for the server.

Knows no drafter, no link and no clock. Methods that address the server return the message to send.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from common.protocol.checks import check_commit, check_logprobs, check_state
from common.protocol.constraint import AnswerConstraint, Constrain, no_constraints
from common.protocol.errors import MisuseError, PeerError
from common.protocol.logprobs import TokenLogprobs
from common.protocol.messages import (
    PROTOCOL_VERSION,
    Ack,
    Cancel,
    Commit,
    Extend,
    Finished,
    FromClient,
    FromServer,
    Grow,
    GrownNode,
    Open,
    Opened,
    Settings,
    State,
    StateAck,
    StateRequest,
)
from common.protocol.rules import RULES
from common.protocol.transitions import ClientState, Lost, client_after
from common.protocol.tree import TokenTree
from common.protocol.views import NodeView, Proposal, TreeView

_id_of = attrgetter("id")


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server describes of its target and of itself before the session is opened."""

    fingerprint: str
    vocab_size: int
    context: int  # tokens of the longest sequence
    max_nodes: int  # live nodes of one tree
    constrain: Constrain = no_constraints


class ClientSession:
    def __init__(self, session: str, limits: Limits, state: StateRequest | None = None):
        """`state` is the draft state that every Open asks for."""
        self.id = session
        self.wanted_state = state
        self.state = ClientState.NEW
        self.turn = 0
        self.passes = 0  # commits of this turn, one for each pass that chose tokens
        self.unverified = 0  # tokens of this turn that became final without verification
        self.carried: tuple[int, ...] = ()  # the nodes, by id, whose tokens the latest commit made final
        self.finished: Finished | None = None
        self._limits = limits
        self._acknowledged = 0
        self._exhausted_at = 0
        self._asked_state: StateRequest | None = None  # on this stream
        self._state_frames = 0  # received on this stream
        self._state_frames_acknowledged = 0

    # Messages to the server.

    def open(self, tokens: Sequence[int], settings: Settings) -> Open:
        """Begins the session's first turn with a prompt."""
        if not tokens:
            raise MisuseError("the prompt is empty; give at least one token")
        constraint = self._limits.constrain(settings.constraint)
        self._advance(Open)
        self._begin_turn(TokenTree(tokens, self._limits.context), settings, constraint)
        return self._opening()

    def reopen(self) -> list[FromClient]:
        """Resumes a turn whose stream broke, on a new stream: the Open, then the live tree under new ids, or the
        Cancel that the old stream may not have carried. It makes up for what was done without a stream."""
        if self.state is ClientState.PARKED:
            raise MisuseError("the answer is complete; begin the next turn with extend")
        self._advance(Open)
        opening: FromClient = self._opening()
        if self._cancelled:
            self._advance(Cancel)
            return [opening, Cancel(self.turn)]
        nodes = self.tree.renumber()
        return [opening, self._grow(nodes)] if nodes else [opening]

    def extend(self, keep: int, tokens: Sequence[int], settings: Settings) -> Extend | Open | None:
        """Begins the next turn: keeps the first `keep` positions and appends; an Open where the stream is gone, nothing
        where it broke in mid-answer and is to be reopened first."""
        if not 0 <= keep <= self.tree.frontier or keep + len(tokens) == 0:
            raise MisuseError(f"cannot keep {keep} of {self.tree.frontier} tokens and append {len(tokens)}")
        constraint = self._limits.constrain(settings.constraint)  # may raise, and then nothing has begun
        before = self.state
        self._advance(Open if before is ClientState.PARKED else Extend)
        self.tree.rewrite(keep, tokens)
        self.turn += 1
        self._begin_turn(self.tree, settings, constraint)
        if before is ClientState.PARKED:
            return self._opening()
        return None if self._is_lost else Extend(self.turn, keep, tuple(tokens), settings)

    def cancel(self) -> Cancel | None:
        self._advance(Cancel)
        self._cancelled = True
        return None if self._is_lost else Cancel(self.turn)

    def accept_unverified(self, tokens: Sequence[int]) -> None:
        """Makes tokens final without verification, in an answer whose stream is lost. Raises MisuseError in any other,
        and for more than the answer has room for."""
        if not self._is_lost or len(tokens) > self.room:
            raise MisuseError("only what was drafted while the link was gone can be accepted unverified")
        self.tree.commit(tokens)
        self.unverified += len(tokens)

    def propose(self, frontier: int, proposals: Sequence[Proposal]) -> Grow | None:
        """Grows the tree by what was drafted from a view of `frontier` tokens.

        Returns the Grow that tells the server, or None where nothing of it is still of use or there is no stream.
        """
        self._advance(Grow)
        if any(not 0 <= proposal.token < self._limits.vocab_size for proposal in proposals):
            raise MisuseError(f"a proposal lies outside the vocabulary of {self._limits.vocab_size}")
        first = self.tree.last_id + 1
        offered = [self._number(first, index, proposal) for index, proposal in enumerate(proposals)]
        room = self._limits.max_nodes - len(self.tree)
        end = self._limit - 1  # the last token of an answer needs no node
        fresh = [node for node in self.tree.grow(frontier, _fitting(offered, room)) if node.position < end]
        self.tree.forget(frontier)  # no later view is older than this one
        return self._grow(self.tree.grown(fresh)) if fresh and not self._is_lost else None

    def exhausted(self) -> Grow | None:
        """Tells the server that there is nothing to propose at this frontier, once for each frontier."""
        if self._exhausted_at == self.tree.frontier or self._is_lost:
            return None
        self._advance(Grow)
        self._exhausted_at = self.tree.frontier
        return self._grow([])

    def acknowledge(self) -> Ack | None:
        """Acknowledges the frontier where no Grow has done so yet."""
        if self._acknowledged >= self.tree.frontier or self.state is not ClientState.GENERATING:
            return None
        self._advance(Ack)
        self._acknowledged = self.tree.frontier
        return Ack(self.turn, self.tree.frontier)

    def acknowledge_state(self) -> StateAck | None:
        """Acknowledges the State frames of this stream, where some are not acknowledged yet."""
        if self._state_frames_acknowledged == self._state_frames:
            return None
        self._advance(StateAck)
        self._state_frames_acknowledged = self._state_frames
        return StateAck(self._state_frames)

    # Frames from the server, and events of the link.

    def receive(self, message: FromServer) -> tuple[int, ...]:
        """Takes a frame and returns the tokens that it made final, in sequence order.

        Raises PeerError where the server breaks the protocol.
        """
        if isinstance(message, Commit):
            if self._is_stale(message.turn):
                return ()
            self._advance(Commit)
            room = self.room if self.finished is None else 0
            known = check_commit(message, self.tree.tokens, self._prompt_length, room, self._limits.vocab_size)
            if message.logprobs or self._settings.top_logprobs is not None:
                check_logprobs(message, self._settings, self._limits.vocab_size)
                self._logprobs.update(enumerate(message.logprobs, message.start))
            fresh = message.tokens[known:]
            if fresh:
                self.carried = tuple(map(_id_of, self.tree.commit(fresh)))
                self.passes += 1
            return fresh
        if isinstance(message, Finished):
            self._receive_finished(message)
            return ()
        if isinstance(message, State):
            self._receive_state(message)
            return ()
        self._advance(type(message))
        if isinstance(message, Opened) and message.session != self.id:
            raise PeerError("the server has opened another session than this one")
        return ()

    def lost(self) -> None:
        """The stream broke."""
        self._advance(Lost)

    def view(self) -> TreeView:
        return self.tree.view().drafted_for(self._settings, self._prompt_length, self._constraint)

    @property
    def answer(self) -> list[int]:
        """The committed tokens of this turn."""
        return self.tree.tokens[self._prompt_length :]

    def logprobs_of(self, index: int) -> TokenLogprobs | None:
        """Of the committed token at this index of the answer; None where they were not asked for, and of a token that
        became final unverified."""
        return self._logprobs.get(self._prompt_length + index)

    @property
    def drafted(self) -> Sequence[NodeView]:
        """The live nodes, parents first."""
        return () if self.state is ClientState.NEW else self.tree.view().nodes

    @property
    def room(self) -> int:
        """How many tokens the answer may still gain."""
        return self._limit - self.tree.frontier

    # Details.

    @property
    def _is_lost(self) -> bool:
        return self.state is ClientState.LOST

    @staticmethod
    def _number(first: int, index: int, proposal: Proposal) -> GrownNode:
        if proposal.parent >= first or -proposal.parent > index:
            raise MisuseError(f"proposal {index + 1} hangs from {proposal.parent}, which was not proposed before")
        return GrownNode(first + index, proposal.parent_id(first), proposal.token, proposal.logp, proposal.draw)

    def _receive_finished(self, finished: Finished) -> None:
        if self._is_stale(finished.turn):
            return
        if finished.frontier != self.tree.frontier:
            raise PeerError(f"Finished names frontier {finished.frontier}, but {self.tree.frontier} are known")
        self._advance(Finished)
        self.finished = finished

    def _receive_state(self, state: State) -> None:
        self._advance(State)
        check_state(state, self._asked_state)
        end = state.start + state.count
        if not self._is_stale(state.turn) and end > self.tree.frontier:
            raise PeerError(f"draft state of position {end - 1} came, but {self.tree.frontier} tokens are known")
        self._state_frames += 1

    def _is_stale(self, turn: int) -> bool:
        """Whether a frame of `turn` is of an earlier turn than this. Raises PeerError for one that was not begun."""
        if turn > self.turn:
            raise PeerError(f"a frame of turn {turn} came before that turn was begun")
        return turn < self.turn

    def _begin_turn(self, tree: TokenTree, settings: Settings, constraint: AnswerConstraint | None) -> None:
        self.tree = tree
        self.finished = None
        self.passes = self.unverified = 0
        self._cancelled = False
        self._logprobs: dict[int, TokenLogprobs] = {}  # by position
        self._settings = settings
        self._constraint = constraint
        self.tree.grouped = RULES[settings.rule].grouped
        self._prompt_length = tree.frontier
        self._acknowledged = tree.frontier
        self._exhausted_at = 0

    def _opening(self) -> Open:
        self._asked_state = self.wanted_state
        self._state_frames = self._state_frames_acknowledged = 0
        self._acknowledged = self.tree.frontier
        self._exhausted_at = 0
        return Open(
            PROTOCOL_VERSION,
            self._limits.fingerprint,
            self.id,
            self.turn,
            tuple(self.tree.tokens),
            self._prompt_length,
            self._settings,
            self._asked_state,
        )

    def _grow(self, nodes: list[GrownNode]) -> Grow:
        self._acknowledged = self.tree.frontier
        return Grow(self.turn, self.tree.frontier, tuple(nodes))

    @property
    def _limit(self) -> int:
        """Of tokens in the sequence."""
        return min(self._limits.context, self._prompt_length + self._settings.max_new_tokens)

    def _advance(self, event: type) -> None:
        self.state = client_after(self.state, event)


def _fitting(nodes: Sequence[GrownNode], room: int) -> Sequence[GrownNode]:
    """The first `room` nodes, without the siblings of those that do not fit and were drawn with them."""
    while 0 < room < len(nodes) and nodes[room].draw is not None and nodes[room].parent == nodes[room - 1].parent:
        room -= 1
    return nodes[:room]
