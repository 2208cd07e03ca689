"""Clients, passes and limits for tests of `Sessions`, without a model and without a link."""

import random
from dataclasses import replace

from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import PeerError
from common.protocol.messages import (
    Failed,
    FromClient,
    FromServer,
    Settings,
    State,
    StateRequest,
)
from common.protocol.terms import Terms
from server.sessions.sessions import ServingLimits, Sessions
from tests.server.fake_target import END, VOCAB, FakeTarget
from tests.server.proposers import Proposer

TERMS = Terms("f", VOCAB, 400, frozenset({END}), lambda tokens: "", idle="eager", max_nodes=64)
LIMITS = Limits("f", VOCAB, 400, 64)
SERVING_LIMITS = ServingLimits(max_sessions=16, pass_tokens=48)
SETTINGS = Settings(max_new_tokens=40)
CAPACITY = 2000
LEASE = 60.0


class Client:
    """A listener with a client session behind it, on a link without delay."""

    def __init__(
        self,
        sessions: Sessions,
        name: str,
        wanted: StateRequest | None = None,
        client: str = "",
        limits: Limits = LIMITS,
    ):
        """`client` is the name of the bearer token of its stream."""
        self.sessions = sessions
        self.client = client
        self.session = ClientSession(f"a session called {name}", limits, wanted)
        self.inbox: list[FromServer] = []
        self.states: list[State] = []
        self.ended = False

    def put(self, message: FromServer) -> None:
        self.inbox.append(message)

    def end(self) -> None:
        self.ended = True

    def say(self, message: FromClient | None, now: float = 0.0) -> None:
        if message is not None:
            try:
                self.sessions.receive(self, message, now)
            except PeerError as error:
                self.sessions.fail(self, error)

    def open(self, prompt: list[int], settings: Settings = SETTINGS) -> None:
        self.say(self.session.open(prompt, settings))

    def hear(self, now: float = 0.0) -> None:
        while self.inbox and not self.failed:
            message = self.inbox.pop(0)
            self.session.receive(message)
            if isinstance(message, State):
                self.states.append(message)
            self.say(self.session.acknowledge(), now)
            self.say(self.session.acknowledge_state(), now)

    def draft(self, propose: Proposer) -> None:
        view = self.session.view()
        self.say(self.session.propose(len(view.tokens), propose(view)))

    @property
    def failed(self) -> Failed | None:
        return next((message for message in self.inbox if isinstance(message, Failed)), None)

    @property
    def done(self) -> bool:
        return self.failed is not None or self.ended or self.session.finished is not None


def one_pass(sessions: Sessions, fake_target: FakeTarget, now: float = 0.0) -> int:
    """Makes draft state before the pass, as the engine does."""
    batch = sessions.plan(now)
    exports = sessions.claim_state()
    sessions.send_state(exports, fake_target.make([export.request for export in exports]), now)
    if batch is None:
        return 0
    sessions.complete(batch, fake_target.verify(batch.scheduled), now)
    return len(batch.owners)


def answer(client: Client, sessions: Sessions, fake_target: FakeTarget) -> None:
    """Plain decoding to the end of the turn."""
    client.hear()
    while not client.done:
        assert one_pass(sessions, fake_target)
        client.hear()


def prompt_of(index: int, length: int) -> list[int]:
    rng = random.Random(index)
    return [1 + rng.randrange(VOCAB - 1) for _ in range(length)]


# Sessions that outlive their streams.


def leasing(capacity: int = CAPACITY, **bounds: int) -> Sessions:
    return Sessions(TERMS, replace(SERVING_LIMITS, lease_seconds=LEASE, **bounds), capacity)


def nothing_is_held(sessions: Sessions) -> bool:
    return (len(sessions), sessions.away, sessions.free_slots, sessions.held_slots) == (0, 0, CAPACITY, 0)


def lose(client: Client, now: float = 0.0) -> None:
    client.inbox.clear()
    client.sessions.leave(client, now)


def returned(client: Client) -> Client:
    """The same client on a new stream."""
    fresh = renewed(client)
    if client.session.finished is None:
        client.session.lost()
    for message in client.session.reopen():
        fresh.say(message)
    return fresh


def renewed(client: Client) -> Client:
    """The same client on a new stream, on which it has said nothing yet."""
    fresh = Client(client.sessions, "unused", client=client.client)
    fresh.session, fresh.states = client.session, client.states
    return fresh
