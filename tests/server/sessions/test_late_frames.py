"""Frames for answers that are over: free while they may have been on their way, then charged, then the session ends."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from common.protocol.errors import PeerError
from common.protocol.messages import (
    Ack,
    Cancel,
    Extend,
    FailureCode,
    FromClient,
    Grow,
    GrownNode,
    Ping,
    Settings,
    StateAck,
)
from server.sessions.late_frames import LateFrames
from server.sessions.quotas import Allowance, Quotas
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import LIMITS, SERVING_LIMITS, TERMS, Client, answer, one_pass, prompt_of
from tests.server.fake_target import STATE, STATE_KINDS, VOCAB, FakeTarget, decode

ENDLESS = replace(TERMS, end_tokens=frozenset(), max_nodes=512)
MANY = Grow(0, 3, tuple(GrownNode(number, 0, VOCAB + number, -1.0) for number in range(1, 513)))
PATIENT = Settings(max_new_tokens=300)


def test_what_may_be_on_its_way_is_free() -> None:
    late = LateFrames()
    assert sum(late.take(1, now=1.0) for _ in range(400)) == 0


def test_what_comes_at_leisure_is_free_for_ever() -> None:
    late = LateFrames()
    assert sum(late.take(0, now=0.05 * second) for second in range(20_000)) == 0


def test_what_does_not_stop_is_paid_for_and_then_ended() -> None:
    late, paid = LateFrames(), 0
    for _ in range(31):
        paid += late.take(512, now=1.0)
    assert paid > 10_000
    with pytest.raises(PeerError, match="too many stale or repeated frames"):
        late.take(512, now=1.0)


def test_a_long_silence_is_no_reason_to_hear_more_at_once() -> None:
    late = LateFrames()
    late.take(1, now=0.0)
    for _ in range(31):
        late.take(512, now=3600.0)
    with pytest.raises(PeerError, match="too many stale or repeated frames"):
        late.take(512, now=3600.0)


@pytest.mark.parametrize("frame", [MANY, Ack(0, 3), Cancel(0), Ping(1)], ids=["Grow", "Ack", "Cancel", "Ping"])
def test_a_session_ends_that_goes_on_about_its_last_answer(frame: FromClient) -> None:
    sessions = Sessions(ENDLESS, SERVING_LIMITS, 2000, Quotas({"bob": Allowance(tokens_per_minute=10_000)}))
    fake_target, flooding, honest = FakeTarget(), Client(sessions, "flooding", client="bob"), Client(sessions, "honest")
    flooding.open(prompt_of(1, 3), Settings(max_new_tokens=2))
    answer(flooding, sessions, fake_target)
    honest.open(prompt_of(2, 3), Settings(max_new_tokens=20))
    sent = 0
    while flooding.failed is None and sent < 10_000:
        flooding.say(frame, now=1.0)
        sent += 1
    assert flooding.failed is not None
    assert flooding.failed.code is FailureCode.PROTOCOL
    assert "too many stale or repeated frames" in flooding.failed.message
    again = Client(sessions, "again", client="bob")
    again.open(prompt_of(3, 3), Settings(max_new_tokens=2))
    assert (again.failed is not None) == (frame is MANY), "nodes cost most"
    while not honest.done:
        one_pass(sessions, fake_target, 1.0)
        honest.hear()
    assert honest.session.answer == decode(prompt_of(2, 3), 20, end=-1)


def test_late_nodes_are_not_looked_at_and_name_none_of_the_servers_own() -> None:
    sessions, fake_target = Sessions(ENDLESS, SERVING_LIMITS, 2000), FakeTarget()
    client = Client(sessions, "s")
    client.open(prompt_of(1, 3), Settings(max_new_tokens=2))
    answer(client, sessions, fake_target)
    client.say(Grow(0, 3, (GrownNode((1 << 63) - 1, 0, VOCAB, 5.0),)))
    assert client.failed is None
    assert sessions.counters.stale_nodes == 1
    client.say(client.session.extend(5, [7], Settings(max_new_tokens=2)))
    client.say(Grow(1, 6, (GrownNode(1 << 62, 0, 1, -1.0),)))
    assert client.failed is not None
    assert "too large" in client.failed.message


def test_a_hundred_frames_a_second_with_nothing_new_are_free_for_ever() -> None:
    client = Client(Sessions(ENDLESS, SERVING_LIMITS, 2000), "s")
    client.open(prompt_of(1, 3), PATIENT)
    for number in range(5000):
        client.say(Ack(0, 3), now=1.0 + number / 100)
    assert client.failed is None


AGAIN = Grow(0, 3, tuple(GrownNode(number, 0, number % VOCAB, -1.0) for number in range(1, 301)))


@pytest.mark.parametrize(
    "frame",
    [AGAIN, Grow(0, 3, ()), Ack(0, 3), Extend(0, 3, (7,) * 40_000, PATIENT)],
    ids=["Grow", "empty Grow", "Ack", "Extend"],
)
def test_a_session_ends_that_repeats_itself_while_its_answer_is_made(frame: FromClient) -> None:
    sessions = Sessions(ENDLESS, SERVING_LIMITS, 2000)
    repeating = Client(sessions, "repeating")
    repeating.open(prompt_of(1, 3), PATIENT)
    repeating.say(AGAIN)
    assert repeating.failed is None
    for _ in range(2100):
        repeating.say(frame, now=1.0)
    assert repeating.failed is not None
    assert repeating.failed.code is FailureCode.PROTOCOL
    assert "too many stale or repeated frames" in repeating.failed.message


NOTHING = Settings(max_new_tokens=0)
LONG = prompt_of(1, 1600)
WIDE = replace(ENDLESS, context=2000)
WIDE_LIMITS = replace(LIMITS, context=2000)


def flooded(client: Client, frames: Callable[[int], Sequence[FromClient]]) -> int:
    """After how many turns at one instant the session ends; `frames` are those of a turn."""
    for turn in range(1, 3000):
        for frame in frames(turn):
            client.say(frame, now=1.0)
        if client.failed is not None:
            assert "too many stale or repeated frames" in client.failed.message
            return turn
    return 3000


@pytest.mark.parametrize("has_feed", [False, True])
def test_a_session_ends_that_goes_on_asking_for_nothing(has_feed: bool) -> None:
    """Each time its whole prompt is read again: the longer it is, the sooner."""
    sessions = Sessions(replace(WIDE, state_kinds=lambda _: STATE_KINDS), SERVING_LIMITS, 4000)
    turns, fake_target = [], FakeTarget()
    for prompt in (prompt_of(1, 3), LONG):
        client = Client(sessions, f"of {len(prompt)} tokens", STATE if has_feed else None, limits=WIDE_LIMITS)
        client.open(prompt, NOTHING)
        for _ in range(200 if has_feed else 0):  # until all of it has come
            one_pass(sessions, fake_target)
            client.hear()
        assert not has_feed or client.done
        extend = Extend(0, len(prompt), (), NOTHING)
        turns.append(flooded(client, lambda turn, extend=extend: [replace(extend, turn=turn)]))
    assert turns[1] < 600 < turns[0] < 2200


def test_a_session_ends_that_takes_each_turn_back() -> None:
    client = Client(Sessions(WIDE, SERVING_LIMITS, 2000), "s", limits=WIDE_LIMITS)
    client.open(LONG, NOTHING)
    turns = flooded(client, lambda turn: [Extend(turn, len(LONG), (), PATIENT), Cancel(turn)])
    assert turns < 600


def test_turns_for_nothing_and_turns_that_are_taken_back_are_free_at_leisure() -> None:
    client = Client(Sessions(WIDE, SERVING_LIMITS, 2000), "s", limits=WIDE_LIMITS)
    client.open(LONG, NOTHING)
    for turn in range(1, 400):
        settings = PATIENT if turn % 2 else NOTHING
        client.say(Extend(turn, len(LONG), (), settings), now=0.1 * turn)
        client.say(Cancel(turn), now=0.1 * turn)
    assert client.failed is None


def test_a_session_ends_that_goes_on_about_state_that_has_come() -> None:
    sessions = Sessions(replace(ENDLESS, state_kinds=lambda _: STATE_KINDS), SERVING_LIMITS, 2000)
    client = Client(sessions, "s", STATE)
    client.open(prompt_of(1, 3), PATIENT)
    one_pass(sessions, FakeTarget())
    for _ in range(2100):
        client.say(StateAck(0), now=1.0)
    assert client.failed is not None
    assert "too many stale or repeated frames" in client.failed.message


def test_to_say_at_each_frontier_once_that_nothing_more_comes_is_free() -> None:
    quotas = Quotas({"bob": Allowance(tokens_per_minute=100_000)})
    sessions = Sessions(replace(ENDLESS, context=1200), SERVING_LIMITS, 2000, quotas)
    fake_target, client = FakeTarget(), Client(sessions, "s", client="bob", limits=replace(LIMITS, context=1200))
    client.open(prompt_of(1, 3), Settings(max_new_tokens=1000))
    while not client.done and client.failed is None:
        frontier = client.session.tree.frontier
        # None of these fades away, for all come at one moment.
        client.say(Grow(0, frontier, (GrownNode(10**6 + frontier, 0, VOCAB - 1, -1.0),)), now=1.0)
        client.say(Grow(0, frontier, ()), now=1.0)
        one_pass(sessions, fake_target, 1.0)
        client.hear()
    assert client.failed is None
    assert quotas._tokens["bob"]._total == 3 + len(client.session.answer) == 1003
