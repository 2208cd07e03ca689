"""An exception that one session raises ends that session alone, with a sentence for its client and a log line."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from common.protocol.acceptance import AcceptanceEstimator
from common.protocol.messages import FailureCode, Grow, GrownNode, Settings
from common.protocol.server_session import ServerSession
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, TERMS, Client, prompt_of
from tests.server.fake_target import STATE, STATE_KINDS, VOCAB, FakeTarget, decode
from tests.server.helpers import Helpers, one_level
from tests.server.proposers import guessing

ASSISTED = replace(
    TERMS,
    idle="assist",
    server_drafts=True,
    state_kinds=lambda request: STATE_KINDS,
    end_tokens=frozenset(),
    max_nodes=512,
)
SETTINGS = Settings(max_new_tokens=40)


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(ASSISTED, SERVING_LIMITS, capacity=3000)


class Clock:
    """A pass takes a millisecond for each of its tokens, so that the width of a pass matters."""

    def __init__(self, sessions: Sessions, token_seconds: float = 0.001):
        self._token_seconds = token_seconds
        self._sessions, self._fake_target, self.now = sessions, FakeTarget(), 0.0
        self._helpers = Helpers(guessing(VOCAB))

    def go_on(self, *clients: Client) -> None:
        one_level(self._sessions, self._helpers)
        self.now = max(self.now, min(self._sessions.next_due(), self.now + 1.0))
        batch = self._sessions.plan(self.now)
        exports = self._sessions.claim_state()
        self._sessions.send_state(exports, self._fake_target.make([each.request for each in exports]), self.now)
        if batch is not None:
            self.now += self._token_seconds * batch.work.tokens
            self._sessions.complete(batch, self._fake_target.verify(batch.scheduled), self.now)
        for client in clients:
            client.hear()


def opened(sessions: Sessions, name: str, length: int) -> Client:
    client = Client(sessions, name, STATE)
    client.open(prompt_of(len(name), length), SETTINGS)
    return client


def entry_of_client(sessions: Sessions, client: Client) -> Any:
    return sessions._registry.entry_of(client)


def raising(*_: object) -> Any:
    raise ZeroDivisionError("of one session")


def broken_method(name: str) -> Callable[[Any], None]:
    def break_it(entry: Any) -> None:
        setattr(entry.session, name, raising)

    return break_it


def broken_property(name: str) -> Callable[[Any], None]:
    def break_it(entry: Any) -> None:
        entry.session.__class__ = type("Broken", (ServerSession,), {name: property(raising)})

    return break_it


def broken_weighing(entry: Any) -> None:
    broken = type("Broken", (AcceptanceEstimator,), {"max_acceptance": property(raising)})
    entry.session.acceptance.__class__ = broken


def broken_slots(entry: Any) -> None:
    """What each of its passes rejects is given back before it is given back."""
    complete = entry.session.complete

    def complete_and_give(scheduled: Any, *chosen: Any) -> Any:
        result = complete(scheduled, *chosen)
        entry.sequence._pool.give(scheduled.slots[len(scheduled.chain) + len(result.nodes_kept) :])
        return result

    entry.session.complete = complete_and_give


BREAKS = {
    **{name: broken_method(name) for name in ("due", "plan", "complete", "server_draft_view", "add_server_draft")},
    **{name: broken_method(name) for name in ("next_span", "state_frame")},
    **{name: broken_property(name) for name in ("wants_server_drafting", "may_server_draft", "waits_for_its_client")},
    "weighing": broken_weighing,
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_one_session_raises_ends_it_alone(sessions: Sessions, name: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(sessions)
    faulty, honest = opened(sessions, "faulty", 30), opened(sessions, "honest", 12)
    for _ in range(4):
        clock.go_on(faulty, honest)
    assert faulty.failed is None
    BREAKS[name](entry_of_client(sessions, faulty))
    ends_alone(clock, sessions, faulty, honest, caplog)
    assert "ZeroDivisionError" in caplog.text


def test_whose_slots_are_free_already_ends_alone(sessions: Sessions, caplog: pytest.LogCaptureFixture) -> None:
    """Rejected slots of all sessions are given back together."""
    clock = Clock(sessions, token_seconds=0.0)  # so that all nodes are verified
    faulty, honest = opened(sessions, "faulty", 30), opened(sessions, "honest", 12)
    for _ in range(4):
        clock.go_on(faulty, honest)
    broken_slots(entry_of_client(sessions, faulty))
    ends_alone(clock, sessions, faulty, honest, caplog)
    assert "ValueError in slots.py" in caplog.text


def ends_alone(
    clock: Clock, sessions: Sessions, faulty: Client, honest: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        for _ in range(300):
            clock.go_on(honest)
            if honest.done:
                break
    assert honest.session.answer == decode(prompt_of(len("honest"), 12), 40, end=-1)
    assert faulty.failed is not None
    assert faulty.failed.code is FailureCode.INTERNAL
    assert "try again" in faulty.failed.message
    assert faulty.ended
    assert "a session failed" in caplog.text
    sessions.leave(honest, clock.now)
    assert (len(sessions), sessions.held_slots) == (0, 0)


def logps(*each: float) -> Iterator[tuple[GrownNode, ...]]:
    for number, logp in enumerate(each, start=1):
        yield (GrownNode(number, number - 1, 5, logp),)


def chain(count: int, logp: float) -> list[tuple[GrownNode, ...]]:
    return [tuple(node for (node,) in logps(*[logp] * count))]


@pytest.mark.parametrize(
    "grows", [list(logps(-800.0, -800.0)), chain(256, -3.0), chain(256, -100.0), list(logps(*[-100.0] * 40))]
)
def test_nodes_that_are_as_good_as_impossible_reach_nobody_else(
    sessions: Sessions, grows: list[tuple[GrownNode, ...]]
) -> None:
    """Their probabilities underflow, and with passes that cost time they are compared with those of other sessions."""
    clock = Clock(sessions)
    hostile, honest = opened(sessions, "hostile", 3), opened(sessions, "honest", 200)
    for _ in range(8):
        clock.go_on(hostile, honest)
    for nodes in grows:
        hostile.say(Grow(0, hostile.session.tree.frontier, nodes))
    while not honest.done:
        clock.go_on(honest)
    assert honest.session.answer == decode(prompt_of(len("honest"), 200), 40, end=-1)
