"""The log on stderr: JSON lines for programs, and none of the text that clients send or receive."""

import json
import logging
import math
from dataclasses import replace
from typing import Any

import pytest

from common.protocol.messages import Settings
from common.protocol.scheduled_tokens import ScheduledTokens
from common.protocol.server_session import ServerSession
from server.events import CallsRefused
from server.observe import log
from server.observe.log import configure_logging
from server.sessions.quotas import Allowance, Quotas
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, TERMS, Client, answer, one_pass, prompt_of
from tests.server.fake_target import FakeTarget

SHORT = Settings(max_new_tokens=3)


def objects(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def busy_sessions() -> None:
    """Sessions to which everything happens that is logged, at second 5."""
    quotas, fake_target = Quotas({"alice": Allowance(), "bob": Allowance(requests_per_minute=1)}), FakeTarget(poison=49)
    terms = replace(TERMS, end_tokens=frozenset())
    sessions = Sessions(terms, replace(SERVING_LIMITS, lease_seconds=10.0), 2000, quotas, log.handle_event)
    asked = Client(sessions, "asked", client="alice")
    asked.open(prompt_of(1, 20), SHORT)
    answer(asked, sessions, fake_target)
    sessions.leave(asked, 5.0)
    for name in ("first", "second"):
        Client(sessions, name, client="bob").open(prompt_of(2, 7), SHORT)
    broken = Client(sessions, "broken")
    broken.open([49, 3], SHORT)
    while not broken.failed:
        one_pass(sessions, fake_target)
    sessions.plan(100.0)
    sessions.drain()


def test_every_session_is_told_of_by_what_happened_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json")
    busy_sessions()
    told = objects(capsys)
    assert [each["event"] for each in told] == [
        "session opened",
        "answer finished",
        "stream left",
        "session opened",
        "session refused",
        "session opened",
        "session failed",
        "lease ended",
        "draining",
    ]
    assert {each.pop("level") for each in told} == {"info"}
    assert all(each.pop("time").endswith("+00:00") for each in told)
    opened, finished, left, _, refused, _, failed, ended, draining = told
    assert opened == {
        "event": "session opened",
        "session": "a sessio",
        "client": "alice",
        "tokens": 20,
        "resumed": False,
    }
    assert (finished["reason"], finished["tokens"], finished["prompt_tokens"]) == ("length", 3, 20)
    assert (left["kept_seconds"], ended["client"]) == (10.0, "alice")
    assert (refused["client"], refused["reason"], refused["retry_after"]) == ("bob", "quota_requests", 60.0)
    assert (failed["client"], failed["code"]) == ("", "internal")
    assert draining["sessions"] == 1


def test_no_token_and_no_whole_name_of_a_session_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json")
    busy_sessions()
    values = [value for each in objects(capsys) for value in each.values()]
    assert not [value for value in values if isinstance(value, list | dict)]
    assert not [value for value in values if "a session called" in str(value)]


def test_a_fault_that_quotes_what_a_session_holds_is_not_quoted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(session: ServerSession, budget: int) -> ScheduledTokens:
        raise ArithmeticError(f"the secret tokens {session.tree.tokens} were not foreseen")

    monkeypatch.setattr(ServerSession, "plan", fail)
    configure_logging("json")
    busy = Client(Sessions(TERMS, SERVING_LIMITS, 2000), "busy")
    busy.open([41, 42], SHORT)
    one_pass(busy.sessions, FakeTarget())
    (fault,) = (each for each in objects(capsys) if each["event"] == "fault")
    assert fault["message"].startswith("a session failed before its pass: ArithmeticError in test_log.py:")
    assert "secret" not in fault["message"]


def test_people_are_told_of_faults_and_of_what_has_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("text")
    busy_sessions()
    log.note("serving", "there is room for 7 tokens", tokens=7)
    log.handle_event(CallsRefused("opening", "displaced", 1))
    logging.getLogger("server.engine").error("a pass failed: %s", "it was not foreseen")
    logging.getLogger("another.library").info("nobody asked")
    assert capsys.readouterr().err.splitlines() == [
        "outriderd: there is room for 7 tokens",
        "outriderd: 1 opening call refused: displaced",
        "outriderd: a pass failed: it was not foreseen",
    ]


def test_faults_are_objects_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json")
    logging.getLogger("server.engine").error('a "pass"\nfailed')
    log.note("serving", "there is room", seconds=1 / 3)
    fault, note = objects(capsys)
    assert (fault["event"], fault["level"], fault["message"]) == ("fault", "error", 'a "pass"\nfailed')
    assert (note["event"], note["message"], note["seconds"]) == ("serving", "there is room", 0.333)


def test_a_lease_without_an_end_is_null_in_strict_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json")
    log.note("stream left", kept_seconds=math.inf)
    left = json.loads(capsys.readouterr().err, parse_constant=pytest.fail)
    assert left["kept_seconds"] is None
