"""Both halves joined in memory by a link of random delays, on a fake clock, with every fault a link can have.

The simulated engine keeps one entry per processed position, so a committed position that is computed twice or never is
caught where it happens. The client keeps the draft state that it receives, and every entry must be that of the tokens
that it holds.
"""

import heapq
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from common.protocol.client_session import ClientSession, Limits
from common.protocol.draft_state import StateKind, raw_bytes
from common.protocol.messages import (
    Ack,
    Commit,
    Extend,
    Finished,
    FromClient,
    FromServer,
    Grow,
    Open,
    Settings,
    State,
    StateAck,
    StateRequest,
)
from common.protocol.pass_timings import PassTimings
from common.protocol.prefix import common_prefix
from common.protocol.scheduled_tokens import ScheduledTokens
from common.protocol.server_session import ServerSession
from common.protocol.state_feed import Span
from common.protocol.terms import Terms
from common.protocol.transitions import ClientState
from common.protocol.tree import Node
from common.protocol.views import Proposal, TreeView
from tests.common.protocol.fakes import VOCAB, next_token, state_payload
from tests.common.protocol.rules.rows import decide

_LEVELS = 100.0  # per second that the client drafts
_LEVELS_ALONE = 30.0  # the same while it has no stream, which lasts long enough for as many
_RESTS = 0.9  # share of levels that are skipped while the tree is full


@dataclass(frozen=True)
class LinkFaults:
    """The faults of one run: of the link, the drafter and the machines. Probabilities are per message or per level."""

    skill: float = 0.7  # how often the drafter proposes the target's token
    delay: float = 0.05  # mean seconds one way
    repeat: float = 0.0  # frames delivered again later
    lose: float = 0.0  # streams broken, per delivered frame
    away: float = 0.3  # most seconds until a broken stream is dialled again
    restart: float = 0.0  # of broken streams, those that find a server without the session
    cancel: float = 0.0  # answers cancelled, per drafted level
    silent: float = 0.0  # share of levels at which the client sends nothing
    state: StateRequest | None = None
    level: float = 0.02  # mean seconds of a level that the server drafts, where it does


class Joined:
    """One client session and one server session; `run` plays turns to their end and returns the answers."""

    def __init__(self, terms: Terms, faults: LinkFaults, salt: int, seed: int, budget: int = 32):
        self.terms, self.faults, self.salt, self.budget = terms, faults, salt, budget
        self.random = random.Random(seed)
        self.client = ClientSession(
            "session of a test",
            Limits(terms.fingerprint, terms.vocab_size, terms.context, terms.max_nodes),
            faults.state,
        )
        self.held: dict[tuple[str, int], bytes] = {}  # draft state by kind and position
        self.server: ServerSession | None = None
        self.processed: list[int] = []
        self.passes = 0
        self.planted = 0  # nodes that the server drafted itself
        self.cancelled: set[int] = set()
        self._may_carry_state: set[int] = set()  # turns that want state alone, or whose server has committed tokens
        self.breaks = 0
        self.regrown = 0  # nodes that a new stream began with
        self._now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._arrival = {"up": 0.0, "down": 0.0}
        self._stream = 0
        self._served = 0  # the stream on which the server received its newest Open
        self._pass_running = False
        self._pass_timings = PassTimings()
        self._assisting = False

    def run(self, turns: list[tuple[int, list[int], Settings]], enough: float = math.inf) -> list[list[int]]:
        """`turns` are (keep, tokens, settings), where a negative `keep` counts from the frontier's end. A turn is over
        when its answer is, or has `enough` tokens."""
        answers = []
        for index, (back, tokens, settings) in enumerate(turns):
            if settings.wants_state_alone:
                self._may_carry_state.add(index)
            if index == 0:
                self._send(self.client.open(tokens, settings))
            else:
                keep = max(0, self.client.tree.frontier + back)
                known = self.client.tree.tokens
                # Like drafters, which see no turns: they keep what both sequences share.
                shared = common_prefix(known, [*known[:keep], *tokens])
                self.held = {at: state for at, state in self.held.items() if at[1] < shared}
                self._send(self.client.extend(keep, tokens, settings))
            self._at(0.0, self._draft)
            while self.client.state is not ClientState.FINISHED and len(self.client.answer) < enough:
                if not self._queue:
                    raise AssertionError("the session stands still")
                self._now, _, act = heapq.heappop(self._queue)
                act()
                if self._now > 600:
                    raise AssertionError("the session does not end")
            answers.append(self.client.answer)
        return answers

    def check_state(self) -> None:
        """The client has all the draft state that the server need not send again, and it is right."""
        if self.server is not None and self.server.feed is not None and self.server.turn == self.client.turn:
            feed = self.server.feed
            feed.restart()
            sent = 0
            while (span := feed.next(self.server.processed)) is not None:
                self._hold(span.kind.name, span.start, self._export(span))
                feed.sent(span, 1, self._now)
                feed.acknowledge(sent := sent + 1, self._now)
            everywhere = range(self.server.processed)
            assert self.held.keys() >= {(kind.name, position) for kind in feed.kinds for position in everywhere}
        for (name, position), state in self.held.items():
            kind = next(kind for kind in self._kinds if kind.name == name)
            assert state == state_payload(kind, self.client.tree.tokens, position, 1)

    # The client.

    def _draft(self) -> None:
        if self.client.state not in (ClientState.OPENING, ClientState.GENERATING, ClientState.LOST):
            return
        self._at(
            self.random.expovariate(_LEVELS_ALONE if self.client.state is ClientState.LOST else _LEVELS), self._draft
        )
        if self.random.random() < self.faults.silent:
            return
        if self.random.random() < self.faults.cancel:
            self.cancelled.add(self.client.turn)
            cancel = self.client.cancel()
            if cancel is not None:
                self._send(cancel)
            return
        if len(self.client.tree) >= self.terms.max_nodes and self.random.random() < _RESTS:
            return
        view = self.client.view()
        self._propose(len(view.tokens), self._level(view))

    def _level(self, view: TreeView) -> list[Proposal]:
        parents = [0, *(node.id for node in view.nodes)]
        return [self._proposal(view, self.random.choice(parents)) for _ in range(self.random.randint(0, 3))]

    def _propose(self, frontier: int, proposals: list[Proposal]) -> None:
        grow = self.client.propose(frontier, proposals) if proposals else self.client.exhausted()
        if grow is not None:
            self._send(grow)

    def _proposal(self, view: TreeView, parent: int) -> Proposal:
        path: list[int] = []
        nodes = {node.id: node for node in view.nodes}
        at = parent
        while at:
            path.append(nodes[at].token)
            at = nodes[at].parent
        return self._skilled(parent, [*view.tokens, *reversed(path)])

    def _skilled(self, parent: int, before: list[int]) -> Proposal:
        right = self._next(before)
        token = right if self.random.random() < self.faults.skill else self.random.randrange(VOCAB)
        return Proposal(parent, token, -self.random.random())

    def _client_receives(self, frame: FromServer) -> None:
        final = list(self.client.tree.tokens)
        self.client.receive(frame)
        assert self.client.tree.tokens[: len(final)] == final, "what was final is retracted"
        if isinstance(frame, State):
            if frame.turn == self.client.turn:
                self._hold(frame.kind, frame.start, frame.payload)
            acknowledgement = self.client.acknowledge_state()
            assert acknowledgement is not None
            self._send(acknowledgement)
            return
        self._at(self.random.choice([0.0, 0.1]), self._acknowledge)

    @property
    def _kinds(self) -> tuple[StateKind, ...]:
        return () if self.faults.state is None else tuple(self.terms.state_kinds(self.faults.state))

    def _hold(self, kind: str, start: int, payload: bytes) -> None:
        shape = next(each for each in self._kinds if each.name == kind).shape
        size = raw_bytes("int8", (1, *shape))
        for index in range(len(payload) // size):
            self.held[kind, start + index] = payload[index * size : (index + 1) * size]

    def _acknowledge(self) -> None:
        ack = self.client.acknowledge()
        if ack is not None:
            self._send(ack)

    # The server.

    def _server_receives(self, frame: FromClient) -> None:
        if isinstance(frame, Open):
            self._served = self._stream
            if self.server is None:
                self.server = ServerSession(frame, self.terms, self._now, self._pass_timings)
                self.processed = []
                replies = self.server.opening_replies()
            else:
                replies = self.server.reopen(frame, self._now)
        else:
            assert self.server is not None
            replies = self.server.receive(frame, self._now)
        self._keep_processed()
        self._reply(replies)
        self._feed()
        self._consider_pass()
        self._consider_level()

    def _consider_level(self) -> None:
        """The server drafts from a view that may be overtaken by anything meanwhile."""
        if self.server is None or self._assisting:
            return
        session, view = self.server, self.server.server_draft_view(self._pass_running)
        if view is not None:
            self._assisting = True
            epoch, seconds = session.epoch, self.random.expovariate(1 / self.faults.level)
            self._at(seconds, lambda: self._drafted_here(session, epoch, view, seconds))

    def _drafted_here(self, session: ServerSession, epoch: int, view: TreeView, seconds: float) -> None:
        self._assisting = False
        self._pass_timings.level_drafted(seconds)
        if session is self.server:
            before = session.tree.names
            session.add_server_draft(
                epoch, view, self._chain(view) if self.random.random() < 0.5 else self._level(view)
            )
            self.planted += session.tree.names - before
            self._consider_pass()
        self._consider_level()

    def _chain(self, view: TreeView) -> list[Proposal]:
        """As `lookup` proposes them: each below the one before."""
        top = self._proposal(view, 0)
        tokens, chain = [*view.tokens, top.token], [top]
        for depth in range(self.random.randint(0, 3)):
            chain.append(self._skilled(-1 - depth, tokens))
            tokens.append(chain[-1].token)
        return chain

    def _feed(self) -> None:
        """Exports take time, in which anything may happen to what was claimed."""
        assert self.server is not None
        session = self.server
        while (span := session.next_span()) is not None:
            payload = self._export(span)
            self._at(
                self.random.choice([0.0, 0.02]), lambda span=span, payload=payload: self._fed(session, span, payload)
            )

    def _fed(self, session: ServerSession, span: Span, payload: bytes) -> None:
        if session is self.server:
            frame = session.state_frame(span, payload, self._now)
            if frame is not None:
                assert frame.turn in self._may_carry_state, "draft state goes ahead of the first commit"
                self._reply((frame,))

    def _export(self, span: Span) -> bytes:
        assert span.start + span.count <= len(self.processed), "state of what was not processed"
        return state_payload(span.kind, self.processed, span.start, span.count)

    def _consider_pass(self) -> None:
        if self.server is None or self._pass_running:
            return
        due = self.server.due()
        if due <= self._now:
            session, scheduled = self.server, self.server.plan(self.budget)
            self._check(scheduled)
            self._pass_running = True
            seconds = self.random.uniform(0.005, 0.04)
            self._pass_timings.pass_ended(seconds)
            self._at(seconds, lambda: self._complete(session, scheduled))
        elif due < float("inf"):
            self._at(due - self._now, self._consider_pass)

    def _complete(self, session: ServerSession, scheduled: ScheduledTokens) -> None:
        if session is not self.server:
            return
        self._pass_running = False
        self.passes += 1
        result = session.complete(scheduled, self._decide(scheduled), self._now)
        if result.chain_kept:
            self.processed += scheduled.chain
            nodes = scheduled.tokens[len(scheduled.chain) :]
            self.processed += [int(nodes[i]) for i in result.nodes_kept]
        self._keep_processed()
        self._may_carry_state.update(reply.turn for reply in result.replies if isinstance(reply, Commit))
        self._reply(result.replies)
        self._feed()
        self._consider_pass()
        self._consider_level()

    def _decide(self, scheduled: ScheduledTokens) -> list[int]:
        """The target's result for a pass; it knows the processed tokens and nothing of the tree."""
        rows = scheduled.verify_input
        before = [*self.processed, *scheduled.chain]
        choices = [] if rows is None else [self._next([*before, *rows.path(row)]) for row in range(len(rows.tokens))]
        return decide(rows, choices)

    def _next(self, tokens: list[int]) -> int:
        return next_token(tokens, self.salt)

    def _check(self, scheduled: ScheduledTokens) -> None:
        assert 0 < len(scheduled) <= self.budget
        assert scheduled.start == len(self.processed), "a processed position is computed again, or one is skipped"
        assert all(-1 <= parent < row for row, parent in enumerate(scheduled.parents))
        if scheduled.verify_input is not None:
            tree, rows = self.server.tree, scheduled.verify_input  # type: ignore[union-attr]
            live: dict[Node | None, tuple[int, ...]] = {tree.root: ()}
            for node in tree.nodes():
                live[node] = (*live[node.parent], node.token)
            assert {tuple(rows.path(row)) for row in range(len(rows.tokens))} <= set(live.values())

    def _keep_processed(self) -> None:
        assert self.server is not None
        del self.processed[self.server.processed :]
        assert self.processed == self.server.tree.tokens[: self.server.processed]

    def _reply(self, replies: tuple[FromServer, ...]) -> None:
        if self._served != self._stream:
            return
        for frame in replies:
            self._carry("down", frame, self._client_receives, again=isinstance(frame, Commit | Finished))

    # The link.

    def _send(self, frame: FromClient) -> None:
        self._carry("up", frame, self._server_receives, again=isinstance(frame, Grow | Ack | Extend | StateAck))

    def _carry(self, way: str, frame: object, deliver: Callable[..., None], *, again: bool) -> None:
        stream = self._stream
        arrival = max(self._arrival[way], self._now + self.random.expovariate(1 / self.faults.delay))
        self._arrival[way] = arrival

        def arrive() -> None:
            if stream != self._stream:
                return
            if self.random.random() < self.faults.lose:
                self._break()
                return
            deliver(frame)
            if again and self.random.random() < self.faults.repeat:
                self._at(self.random.uniform(0, 0.5), repeat)

        def repeat() -> None:
            if stream == self._stream:
                deliver(frame)

        self._at_time(arrival, arrive)

    def _break(self) -> None:
        self._stream += 1
        self.breaks += 1
        self.client.lost()
        if self.random.random() < self.faults.restart:
            self.server = None
            self._pass_running = False
        self._arrival = {"up": 0.0, "down": 0.0}
        self._at(self.random.uniform(0, self.faults.away), self._reconnect)

    def _reconnect(self) -> None:
        if self.client.state is not ClientState.LOST:
            return
        for frame in self.client.reopen():
            self.regrown += len(frame.nodes) if isinstance(frame, Grow) else 0
            self._send(frame)

    def _at(self, after: float, act: Callable[[], None]) -> None:
        self._at_time(self._now + max(0.0, after), act)

    def _at_time(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (when, next(self._order), act))
