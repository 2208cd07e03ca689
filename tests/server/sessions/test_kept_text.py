"""Answers that come back with text that their clients kept unverified go on: they are no requests, and are not refused
for what another answer would be."""

from dataclasses import replace
from typing import Any

import pytest

from common.protocol.messages import FailureCode, Open, Settings
from server.sessions.quotas import Allowance
from tests.server.clients_of_sessions import Client, prompt_of, renewed
from tests.server.fake_target import decode
from tests.server.sessions.test_sessions_eviction_running import LONG, SHORT, TimedSessions

KEPT = (5, 6, 7)
ONE_REQUEST = {"bob": Allowance(requests_per_minute=1)}


def under_way(quotas: dict[str, Allowance] = ONE_REQUEST, **bounds: Any) -> tuple[TimedSessions, Client]:
    """Bob has asked his one question, and his answer is running."""
    timed = TimedSessions(quotas=quotas, **bounds)
    bob = timed.asks("bob's session id", 3, LONG, client="bob")
    timed.go_on(0.5, bob)
    assert (bob.failed, len(bob.session.answer) > 1) == (None, True)
    return timed, bob


def leaves_and_keeps(timed: TimedSessions, client: Client) -> None:
    timed.leaves(client)
    client.session.accept_unverified(KEPT)


def check_goes_on(timed: TimedSessions, client: Client) -> None:
    assert client.failed is None
    before = list(client.session.tree.tokens)
    timed.go_on(0.5, client)
    more = client.session.tree.tokens[len(before) :]
    assert len(more) > 1
    assert more == decode(before, len(more), end=-1)


@pytest.mark.parametrize("seconds", [0.1, 61.0], ids=["on lease", "dropped"])
@pytest.mark.parametrize("bounds", [{"lease_seconds": 60.0}, {"lease_seconds": 0.0}], ids=["leases", "no leases"])
def test_an_answer_with_kept_text_is_no_request(seconds: float, bounds: dict[str, float]) -> None:
    timed, bob = under_way(**bounds)
    leaves_and_keeps(timed, bob)
    timed.now += seconds
    timed.sessions.plan(timed.now)
    check_goes_on(timed, timed.comes_back(bob))
    second = timed.asks("a second question", 3, SHORT, client="bob")
    assert (second.failed is None) == (seconds > 60), "a minute later he may ask again, and he was charged for one"


def test_nor_where_the_broken_stream_still_seems_to_stand() -> None:
    timed, bob = under_way()
    bob.session.lost()
    bob.session.accept_unverified(KEPT)
    check_goes_on(timed, timed.comes_back(bob))


def test_nor_where_the_server_came_to_the_end_meanwhile() -> None:
    timed = TimedSessions(quotas=ONE_REQUEST)
    bob = timed.asks("bob's session id", 3, SHORT, client="bob")
    timed.go_on(0.1, bob)
    bob.session.lost()
    bob.session.accept_unverified(KEPT)
    timed.go_on(2.0)
    check_goes_on(timed, timed.comes_back(bob))


def test_nor_where_the_link_breaks_again_before_a_token_comes() -> None:
    timed, bob = under_way()
    for _ in range(5):
        leaves_and_keeps(timed, bob)
        bob = timed.comes_back(bob)
        assert bob.failed is None
    check_goes_on(timed, bob)


def test_its_tokens_are_charged_and_may_be_owed() -> None:
    timed, bob = under_way({"bob": Allowance(tokens_per_minute=60)})
    timed.go_on(4.0, bob)
    assert len(bob.session.answer) > 100, "more than his allowance"
    leaves_and_keeps(timed, bob)
    back = timed.comes_back(bob)
    check_goes_on(timed, back)
    second = timed.asks("a second question", 3, SHORT, client="bob")
    assert second.failed is not None
    assert "has used up its tokens" in second.failed.message


def test_it_comes_back_to_a_server_that_is_full() -> None:
    timed, bob = under_way(max_running=1)
    leaves_and_keeps(timed, bob)
    other = timed.asks("another one's id.", 3, LONG)
    assert other.failed is None
    timed.go_on(0.1, other)
    check_goes_on(timed, timed.comes_back(bob))
    assert not other.ended


@pytest.mark.parametrize("is_on_lease", [True, False])
def test_no_more_come_back_than_the_server_lets_come_back(is_on_lease: bool) -> None:
    """Whether their streams were lost or, where the server had come to the end, still seem to stand."""
    timed = TimedSessions(max_running=2)
    asking = []
    for number in range(12):
        client = timed.asks("x" * (number + 1), 3, SHORT)
        timed.go_on(0.1, client)
        client.session.lost()
        client.session.accept_unverified(KEPT)
        timed.go_on(2.0)
        if is_on_lease:
            timed.sessions.leave(client, timed.now)
        asking.append(client)
    refused = [back.failed for back in map(timed.comes_back, asking) if back.failed is not None]
    assert len(refused) == 12 - 2 * 2
    assert {failed.code for failed in refused} == {FailureCode.OVERLOADED}


def test_its_constraint_may_be_compiled_again() -> None:
    timed, bob = under_way()
    leaves_and_keeps(timed, bob)
    (opened,) = bob.session.reopen()
    assert isinstance(opened, Open)
    with timed.sessions.preparing(renewed(bob), opened, timed.now) as is_of_use:
        assert is_of_use


def claim(timed: TimedSessions, bob: Client, tokens: list[int], settings: Settings = LONG) -> Client:
    """Bob opens his session again, with these tokens in place of those that he has."""
    opened, *_ = bob.session.reopen()
    assert isinstance(opened, Open)
    back = renewed(bob)
    back.say(replace(opened, tokens=tuple(tokens), settings=settings), timed.now)
    return back


@pytest.mark.parametrize("kept", [0, 1, 4])
def test_text_in_place_of_what_the_client_has_acknowledged_is_another_question(kept: int) -> None:
    timed, bob = under_way()
    timed.leaves(bob)
    tokens = bob.session.tree.tokens
    assert len(tokens) > 3 + kept + 1
    other = [token + 1 for token in tokens[3 + kept :]]
    back = claim(timed, bob, [*tokens[: 3 + kept], *other])
    assert back.failed is not None
    assert "has used up its requests" in back.failed.message


def test_so_is_kept_text_under_other_settings() -> None:
    timed, bob = under_way()
    leaves_and_keeps(timed, bob)
    back = claim(timed, bob, bob.session.tree.tokens, replace(LONG, max_new_tokens=299))
    assert back.failed is not None


def test_nobody_goes_on_for_ever_from_one_token() -> None:
    """Each time it has to have grown, so that the answer comes to its end."""
    timed = TimedSessions(quotas=ONE_REQUEST)
    bob = timed.asks("bob's session id", 3, LONG, client="bob")
    timed.go_on(0.1)  # and bob does not listen
    first = decode(prompt_of(16, 3), 1, end=-1)
    asked = [*bob.session.tree.tokens, *first]
    bob.session.lost()
    back = claim(timed, bob, [*asked, 7, 8, 9])
    assert back.failed is None
    timed.go_on(0.1)
    bob.session.lost()
    back = claim(timed, bob, [*asked, 10, 11, 12])
    assert back.failed is not None
    assert "has used up its requests" in back.failed.message


def test_a_cancelled_answer_does_not_go_on() -> None:
    """Otherwise one request could hold any number of questions."""
    timed, bob = under_way()
    bob.say(bob.session.cancel(), timed.now)
    asked = [*bob.session.tree.tokens, *KEPT]
    bob.session.lost()
    back = claim(timed, bob, asked)
    assert back.failed is not None
    assert "has used up its requests" in back.failed.message


@pytest.mark.parametrize("is_on_lease", [True, False])
def test_kept_text_for_which_the_cache_has_no_room_waits_for_it(is_on_lease: bool) -> None:
    timed, bob = under_way(capacity=400)
    other = timed.asks("another one's id.", 150, LONG)
    assert other.failed is None
    timed.go_on(0.1, bob, other)
    (timed.leaves if is_on_lease else lambda client: client.session.lost())(bob)
    asked = [*bob.session.tree.tokens, *[1] * 250]
    back = claim(timed, bob, asked)
    assert back.failed is not None
    assert back.failed.message.endswith(f"no room for an answer that has come to {len(asked)} tokens; try again later")
    assert not other.ended
    timed.sessions.leave(other, timed.now)
    timed.now += 61.0
    timed.sessions.plan(timed.now)
    bob.session.lost()
    assert claim(timed, bob, asked).failed is None
