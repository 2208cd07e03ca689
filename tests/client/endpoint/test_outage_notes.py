"""What the log says of a server that comes and goes."""

import asyncio

import pytest

from client.endpoint import outage_notes
from client.endpoint.monitor import Monitor
from client.endpoint.outage_notes import OutageNotes
from client.link.link_state import LinkState

ONLINE, SUSPECT, OFFLINE, RESUMING = LinkState.ONLINE, LinkState.SUSPECT, LinkState.OFFLINE, LinkState.RESUMING
GRACE_S = 0.02


@pytest.fixture
def lines(monkeypatch) -> list[str]:
    monkeypatch.setattr(outage_notes, "GRACE_S", GRACE_S)
    return []


def monitor_of(lines: list[str], state: LinkState) -> Monitor:
    return Monitor(state, None, lambda: True, OutageNotes(state, lambda: "a:1", lines.append))


async def pass_through(monitor: Monitor, *states: LinkState) -> None:
    for state in states:
        monitor.link_changed(state)
    await asyncio.sleep(3 * GRACE_S)


async def test_a_server_is_lost_once_and_back_once_whatever_each_answer_tries(lines):
    monitor = monitor_of(lines, ONLINE)
    await pass_through(monitor, SUSPECT, OFFLINE, RESUMING, OFFLINE)
    await pass_through(monitor, RESUMING, OFFLINE)
    assert lines == ["the server at a:1 is lost"]
    await pass_through(monitor, RESUMING, ONLINE, SUSPECT, ONLINE)
    assert lines[1:] == ["the server at a:1 is back"]


async def test_a_moment_is_not_worth_a_line(lines):
    await pass_through(monitor_of(lines, ONLINE), SUSPECT, OFFLINE, RESUMING, ONLINE, SUSPECT)
    assert lines == []


async def test_who_began_without_the_server_is_told_that_it_came(lines):
    monitor = monitor_of(lines, OFFLINE)
    await pass_through(monitor, RESUMING, OFFLINE)
    assert lines == []
    await pass_through(monitor, ONLINE)
    assert lines == ["the server at a:1 is back"]
