"""Call pools: how many calls one connection or token may have, and which call is ended when a pool is full."""

import pytest

from server.events import CallsRefused, Event
from server.security.call_pools import CallKind, CallPools, CallRefusal, CallRefusedError, CallSlot, PoolLimits

LIMITS = PoolLimits(4, of_a_connection=3, of_a_client=3)


class Calls:
    """Calls of one kind, by name."""

    def __init__(self, limits: PoolLimits = LIMITS):
        self.pools = CallPools({CallKind.FETCH: limits})
        self.given_up: list[tuple[str, CallRefusal]] = []

    def begin(self, name: str, peer: str, client: str = "", at: float = 0.0) -> CallSlot:
        slot = CallSlot(
            CallKind.FETCH, peer, client, at, lambda call_refusal: self.given_up.append((name, call_refusal))
        )
        self.pools.enter(slot, at)
        return slot


def test_one_connection_has_so_many_places_and_gets_back_what_it_leaves() -> None:
    calls = Calls()
    slots = [calls.begin(name, "a") for name in ("1", "2", "3")]
    with pytest.raises(CallRefusedError) as refused:
        calls.begin("4", "a")
    assert refused.value.call_refusal is CallRefusal.CONNECTION
    for _ in range(2):  # leaving twice frees one place
        calls.pools.leave(slots[0])
    calls.begin("5", "a")
    assert calls.pools.held(CallKind.FETCH) == 3
    assert not calls.given_up


def test_one_token_has_so_many_places_on_all_its_connections_but_not_the_one_of_everybody() -> None:
    calls = Calls()
    for peer in ("a", "b", "c"):
        calls.begin(peer, peer, "alice")
    with pytest.raises(CallRefusedError) as refused:
        calls.begin("d", "d", "alice")
    assert refused.value.call_refusal is CallRefusal.CLIENT
    calls.begin("e", "e", "bob")
    assert not calls.given_up
    everybody = Calls()
    for peer in ("a", "b", "c", "d"):
        everybody.begin(peer, peer)


def test_who_fills_the_pool_displaces_his_own() -> None:
    calls = Calls()
    honest = calls.begin("honest", "h", at=0.0)
    for at in range(1, 4):
        calls.begin(f"hostile {at}", "a", at=at)
    calls.begin("another honest one", "i", at=5.0)
    calls.begin("hostile 4", "b", at=6.0)
    assert calls.given_up == [("hostile 1", CallRefusal.DISPLACED), ("hostile 2", CallRefusal.DISPLACED)]
    calls.pools.leave(honest)


def test_of_connections_that_hold_as_many_the_one_that_moves_least_gives_way() -> None:
    calls = Calls()
    for at, peer in enumerate("abcd"):
        calls.begin(peer, peer, at=at).moved_bytes = 0 if peer == "c" else 1000
    calls.begin("e", "e", at=10.0)
    assert calls.given_up == [("c", CallRefusal.DISPLACED)]


def test_what_a_call_moves_is_weighed_by_the_time_that_it_had() -> None:
    calls = Calls()
    for peer, at, moved_bytes in (("a", 0.0, 1000), ("b", 0.0, 1001), ("c", 9.0, 500), ("d", 9.0, 600)):
        calls.begin(peer, peer, at=at).moved_bytes = moved_bytes
    calls.begin("e", "e", at=10.0)
    assert calls.given_up == [("a", CallRefusal.DISPLACED)]


def test_what_is_refused_is_counted_always_and_told_now_and_then() -> None:
    told: list[Event] = []
    pools = CallPools(on_event=told.append)
    for at in (0.0, 1.0, 9.0, 10.0, 11.0):
        pools.count(CallKind.OPENING, CallRefusal.DISPLACED, at)
    pools.count(CallKind.FETCH, CallRefusal.SLOW, 11.0)
    assert pools.refused == {(CallKind.OPENING, CallRefusal.DISPLACED): 5, (CallKind.FETCH, CallRefusal.SLOW): 1}
    assert told == [
        CallsRefused("opening", "displaced", 1),
        CallsRefused("opening", "displaced", 3),
        CallsRefused("fetch", "slow", 1),
    ]
