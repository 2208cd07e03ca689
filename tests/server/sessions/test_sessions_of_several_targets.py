"""The sessions of several targets of one server: what limits them together, and what they do not share."""

from dataclasses import replace

from common.protocol.messages import FailureCode
from server.sessions.quotas import Allowance, Quotas
from server.sessions.registry import SessionRegistry
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import CAPACITY, LEASE, SERVING_LIMITS, TERMS, Client, lose, one_pass, prompt_of
from tests.server.fake_target import FakeTarget


def two_targets(quotas: Quotas | None = None, **bounds: float) -> tuple[Sessions, Sessions]:
    registries: list[SessionRegistry] = []
    limits = replace(SERVING_LIMITS, lease_seconds=LEASE, **bounds)
    shared = quotas or Quotas({})
    first, second = (Sessions(TERMS, limits, CAPACITY, shared, peers=registries) for _ in range(2))
    return first, second


def running(sessions: Sessions, name: str, client: str = "") -> Client:
    """A client whose answer runs and does not wait for it."""
    opened = Client(sessions, name, client=client)
    opened.open(prompt_of(len(name), 10))
    return opened


def finished(sessions: Sessions, name: str, client: str = "") -> Client:
    """A client whose session stays open after its answer."""
    opened = running(sessions, name, client)
    opened.say(opened.session.cancel())
    return opened


def test_sessions_of_all_targets_are_limited_together() -> None:
    first, second = two_targets(max_sessions=2)
    assert running(first, "a").failed is running(second, "bb").failed is None
    refused = running(second, "ccc")
    assert refused.failed is not None
    assert refused.failed.code is FailureCode.OVERLOADED
    assert (len(first), len(second)) == (1, 1)


def test_an_idle_session_of_one_target_makes_way_for_a_question_to_another() -> None:
    first, second = two_targets(max_sessions=2)
    idle, busy = finished(first, "a"), running(second, "bb")
    assert running(second, "ccc").failed is None
    assert idle.ended
    assert not busy.ended
    assert (len(first), len(second), first.held_slots) == (0, 2, 0)


def test_the_oldest_lease_of_any_target_ends_first() -> None:
    first, second = two_targets(max_sessions=2)
    for sessions, name, now in ((second, "a", 1.0), (first, "bb", 2.0)):
        lose(running(sessions, name), now)
    assert (first.away, second.away) == (1, 1)
    assert running(first, "ccc").failed is None
    assert (first.away, second.away) == (1, 0)


def test_a_clients_sessions_are_counted_over_all_targets() -> None:
    quotas = Quotas({"alice": Allowance(max_sessions=1)})
    first, second = two_targets(quotas)
    assert running(first, "a", "alice").failed is None
    refused = running(second, "bb", "alice")
    assert refused.failed is not None
    assert refused.failed.code is FailureCode.QUOTA
    assert running(second, "ccc", "bob").failed is None


def test_a_clients_requests_are_counted_over_all_targets() -> None:
    quotas = Quotas({"alice": Allowance(requests_per_minute=1)})
    first, second = two_targets(quotas)
    assert finished(first, "a", "alice").failed is None
    refused = running(second, "bb", "alice")
    assert refused.failed is not None
    assert "has used up its requests" in refused.failed.message


def test_a_target_that_drains_leaves_the_others_alone() -> None:
    first, second = two_targets()
    one, other = running(first, "a"), running(second, "bb")
    first.drain()
    assert running(first, "ccc").failed is not None
    fake_target = FakeTarget()
    assert one_pass(second, fake_target) == 1
    other.hear()
    assert other.session.tree.frontier > 10
    assert not one.failed
    assert running(second, "dddd").failed is None
