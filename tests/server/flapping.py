"""A client and a server's sessions on a link that keeps breaking, in memory and on a fake clock.

A contact is one stream: the client opens, messages that arrive in time are received, and the rest is lost. Passes take
time, and other clients may keep the server busy.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.protocol.client_session import ClientSession
from common.protocol.messages import FromClient, FromServer, Opened, Settings
from common.protocol.transitions import ClientState
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import Client, prompt_of
from tests.server.fake_target import FakeTarget
from tests.server.proposers import Proposer


@dataclass(frozen=True)
class Contact:
    """The link is up for `up` seconds and down for `down`; the server notices a break `unnoticed` seconds late."""

    up: float
    down: float
    unnoticed: float = 0.0


class _Stream:
    """The server's end of one contact."""

    client = ""

    def __init__(self, on_message: Callable[[FromServer, float], None], until: float):
        self._on_message, self.until = on_message, until
        self.ended = False

    def put(self, message: FromServer) -> None:
        self._on_message(message, self.until)

    def end(self) -> None:
        self.ended = True


class Flapping:
    def __init__(self, sessions: Sessions, delay: float, pass_seconds: float, propose: Proposer, rivals: int = 0):
        """`delay` is one way. Each of the `rivals` asks one question after another on a link that never breaks."""
        self.session: ClientSession = Client(sessions, "of a client that comes and goes").session
        self.fake_target = FakeTarget()
        self._sessions, self._delay, self._pass_seconds, self._propose = sessions, delay, pass_seconds, propose
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._pass_running = False
        self._names = itertools.count()
        self._rivals = [self._new_rival() for _ in range(rivals)]

    def begin(self, prompt: Sequence[int], settings: Settings, contact: Contact) -> None:
        """The first contact."""
        opening = self.session.open(prompt, settings)
        self._meet([opening], contact)

    def again(self, contact: Contact) -> None:
        """The next contact, for an answer that is not finished."""
        self._meet(self.session.reopen(), contact)

    def _meet(self, opening: Sequence[FromClient], contact: Contact) -> None:
        ends_at = self._now + contact.up
        stream = self._stream = _Stream(self._hear, ends_at)
        for message in opening:
            self._send(message)
        self._at(ends_at + contact.unnoticed, lambda: self._leave(stream))
        self._run_until(ends_at)
        if self.session.state is not ClientState.FINISHED:
            self.session.lost()
        self._run_until(ends_at + contact.down)

    def _leave(self, stream: _Stream) -> None:
        # gRPC reports the end of whatever ends first.
        self._sessions.half_close(stream, self._now)
        self._sessions.leave(stream, self._now)

    # The link.

    def _send(self, message: FromClient | None) -> None:
        stream = self._stream
        if message is not None and self._now + self._delay < stream.until:
            self._at(self._now + self._delay, lambda: self._sessions.receive(stream, message, self._now))

    def _hear(self, message: FromServer, until: float) -> None:
        if self._now + self._delay < until:
            self._at(self._now + self._delay, lambda: self._heard(message))

    def _heard(self, message: FromServer) -> None:
        session = self.session
        session.receive(message)
        if session.state is not ClientState.FINISHED and not isinstance(message, Opened):
            view = session.view()
            self._send(session.propose(len(view.tokens), self._propose(view)))
            self._send(session.acknowledge())

    # The server.

    def _run_until(self, end: float) -> None:
        while True:
            self._consider_pass()
            due = self._sessions.next_due() if not self._pass_running else math.inf
            next_at = min(self._events[0][0] if self._events else math.inf, max(due, self._now))
            if next_at > end:
                self._now = end
                return
            self._now = next_at
            if self._events and self._events[0][0] <= self._now:
                heapq.heappop(self._events)[2]()

    def _consider_pass(self) -> None:
        for index, rival in enumerate(self._rivals):
            rival.hear()
            if rival.done:
                self._sessions.leave(rival, self._now)
                self._rivals[index] = self._new_rival()
        if self._pass_running:
            return
        batch = self._sessions.plan(self._now)
        if batch is None:
            return
        self._pass_running = True

        def complete() -> None:
            self._pass_running = False
            self._sessions.complete(batch, self.fake_target.verify(batch.scheduled), self._now)

        self._at(self._now + self._pass_seconds, complete)

    def _new_rival(self) -> Client:
        number = next(self._names)
        rival = Client(self._sessions, f"of rival {number}")
        rival.open(prompt_of(number + 100, 5), Settings(max_new_tokens=30))
        return rival

    def _at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), act))
