"""How long answers take, which tells others when to come: without the time in which they gave way to others."""

from dataclasses import replace

import pytest

from common.protocol.messages import Settings
from server.events import AnswerFinished, TokensCommitted
from tests.server.clients_of_sessions import Client
from tests.server.sessions.test_sessions_eviction_running import ENDLESS, TimedSessions

ANSWER = Settings(max_new_tokens=40)


def began() -> tuple[TimedSessions, Client]:
    timed = TimedSessions(terms=replace(ENDLESS, run_ahead=8), lease_seconds=600.0, max_running=1)
    client = timed.asks("first", 3, ANSWER)
    timed.go_on(0.3, client)
    return timed, client


def check_times(timed: TimedSessions, client: Client, seconds: float) -> None:
    """Of the whole answer as its client had to wait for it, and what others are told."""
    timed.go_on(5.0, client)
    assert client.session.finished is not None
    (finished,) = [event for event in timed.events if isinstance(event, AnswerFinished)]
    assert finished.seconds == pytest.approx(seconds, rel=0.2)
    waits = [event.waited for event in timed.events if isinstance(event, TokensCommitted)]
    assert max(wait for wait in waits if wait is not None) < 0.5
    busy = timed.asks("busy", 3, ANSWER)
    timed.go_on(0.06, busy)
    refused = timed.asks("refused", 3, ANSWER)
    assert refused.failed is not None
    assert refused.failed.retry_after < 3


def test_an_answer_that_nothing_holds_up_takes_its_passes() -> None:
    timed, client = began()
    check_times(timed, client, 1.2)


def test_an_outage_is_no_time_of_an_answer() -> None:
    timed, client = began()
    timed.leaves(client)
    timed.go_on(100.0)
    check_times(timed, timed.comes_back(client), 101.2)


def test_nor_is_the_wait_for_a_client_that_acknowledges_nothing() -> None:
    timed, client = began()
    timed.go_on(100.0)
    check_times(timed, client, 101.2)


def test_nor_is_an_outage_that_the_server_has_not_noticed() -> None:
    """The client is back on another stream before the first one is given up."""
    timed, client = began()
    timed.go_on(100.0)
    client.session.lost()
    check_times(timed, timed.comes_back(client), 101.2)
