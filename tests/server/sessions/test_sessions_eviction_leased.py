"""Absent sessions hold nothing that a present one needs: which of them are dropped for slots, places and passes."""

from common.protocol.messages import FailureCode, Settings
from tests.server.clients_of_sessions import (
    LEASE,
    SETTINGS,
    Client,
    answer,
    leasing,
    lose,
    one_pass,
    prompt_of,
    returned,
)
from tests.server.fake_target import FakeTarget, decode


def test_nobody_makes_room_for_a_pass_that_an_absent_session_is_owed() -> None:
    sessions, fake_target = leasing(capacity=20), FakeTarget()
    present, absent = Client(sessions, "present"), Client(sessions, "absent")
    present.open(prompt_of(1, 20), Settings(max_new_tokens=1))
    answer(present, sessions, fake_target)
    assert sessions.free_slots == 0
    absent.open(prompt_of(2, 10))
    lose(absent)
    assert sessions.plan(0.0) is None
    assert sessions.next_due() == LEASE
    assert sessions.held_slots == 20


def test_absent_sessions_make_room_for_slots_before_finished_ones_and_the_first_to_leave_goes_first() -> None:
    sessions, fake_target = leasing(capacity=100), FakeTarget()
    short = Settings(max_new_tokens=1)
    present = Client(sessions, "present")
    present.open(prompt_of(0, 20), short)
    answer(present, sessions, fake_target)
    absent = [Client(sessions, f"absent {index}") for index in range(2)]
    for index, client in enumerate(absent):
        client.open(prompt_of(index + 1, 20), short)
        answer(client, sessions, fake_target)
        lose(client, now=float(index))
    assert sessions.free_slots == 40
    newcomer = Client(sessions, "comer")
    newcomer.open(prompt_of(9, 45), short)
    answer(newcomer, sessions, fake_target)
    assert newcomer.failed is None
    assert sessions.away == 1
    held = {entry.session.id: len(entry.sequence) for entry in sessions._registry.entries}
    assert held[present.session.id] == 20, "parked although somebody absent could go"
    last = Client(sessions, "last")
    last.open(prompt_of(10, 30), short)
    answer(last, sessions, fake_target)
    assert (last.failed, sessions.away) == (None, 0)


def test_absent_sessions_count_among_the_most_and_go_when_somebody_comes() -> None:
    sessions, fake_target = leasing(max_sessions=2), FakeTarget()
    clients = [Client(sessions, str(index)) for index in range(4)]
    for client in clients[:2]:
        client.open(prompt_of(1, 10))
        lose(client)
    assert sessions.away == 2
    clients[2].open(prompt_of(2, 10))
    assert (len(sessions), sessions.away) == (1, 1)
    second = returned(clients[1])
    assert (len(sessions), sessions.away, second.failed) == (2, 0, None)
    clients[3].open(prompt_of(3, 10))
    assert clients[3].failed is not None
    assert clients[3].failed.code is FailureCode.OVERLOADED
    first = returned(clients[0])
    assert first.failed is not None
    assert first.failed.code is FailureCode.OVERLOADED
    answer(second, sessions, fake_target)
    assert second.session.answer == decode(prompt_of(1, 10), SETTINGS.max_new_tokens)


def test_who_left_with_the_last_slot_ends_nobody_else() -> None:
    sessions, fake_target = leasing(capacity=64), FakeTarget()
    client = Client(sessions, "s")
    client.open(prompt_of(1, 64), Settings(max_new_tokens=1))
    while one_pass(sessions, fake_target):
        pass
    assert sessions.free_slots == 0
    lose(client)
    assert sessions.plan(0.0) is None
    assert sessions.away == 1


def test_a_client_that_leaves_many_sessions_ends_those_of_no_other() -> None:
    sessions = leasing(max_sessions=4)
    for index in range(2):
        client = Client(sessions, f"bob {index}", client="bob")
        client.open(prompt_of(index, 10))
        lose(client, now=float(index))
    for index in range(8):
        client = Client(sessions, f"alice {index}", client="alice")
        client.open(prompt_of(5, 10))
        lose(client, now=float(2 + index))
    assert [entry.client for entry in sessions._registry.leases.entries] == ["bob", "bob", "alice", "alice"]
    assert [entry.session.id[-1] for entry in sessions._registry.leases.entries][2:] == ["6", "7"]
