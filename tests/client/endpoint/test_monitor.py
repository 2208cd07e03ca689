"""What is reported about the link, and when it is measured."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from client.endpoint import monitor as monitor_module
from client.endpoint.monitor import HealthProbe, Monitor
from client.link.link_state import LinkState
from client.link.shared_connection import SharedConnection
from client.link.stream import Access
from common.address import Address
from common.rpc.errors import LinkError
from common.rpc.traffic import Traffic
from netem.virtual.clock import run_virtually

ONLINE, SUSPECT, OFFLINE = LinkState.ONLINE, LinkState.SUSPECT, LinkState.OFFLINE
RTT = 0.04


class Server:
    """Answers while it is up."""

    def __init__(self):
        self.is_there = True
        self.asked = 0

    async def __call__(self) -> float:
        self.asked += 1
        await asyncio.sleep(0)
        if not self.is_there:
            raise LinkError("gone")
        return RTT


@pytest.fixture
def server(monkeypatch) -> Server:
    for pause in ("_PROBE_INTERVAL_S", "_RETRY_INTERVAL_S"):
        monkeypatch.setattr(monitor_module, pause, 0.001)
    return Server()


def watching(server, state=ONLINE, busy=lambda: False, **more):
    return Monitor(state, server, busy, **more)


async def becomes(monitor: Monitor, state: LinkState) -> None:
    async with asyncio.timeout(10):
        while monitor.link is not state:
            await monitor.changed(1)


async def test_nobody_is_asked_while_nobody_looks(server):
    monitor = watching(server)
    await asyncio.sleep(0.02)
    assert server.asked == 0
    async with monitor.watched(), monitor.watched():
        server.is_there = False
        await becomes(monitor, OFFLINE)
    asked = server.asked
    await asyncio.sleep(0.02)
    assert server.asked == asked > 0


async def test_a_server_that_is_silent_is_suspect_and_then_gone_and_comes_back(server):
    monitor, seen = watching(server), []
    async with monitor.watched():
        for is_there, state in ((False, SUSPECT), (False, OFFLINE), (True, ONLINE)):
            server.is_there = is_there
            await becomes(monitor, state)
            seen.append(monitor.status().rtt_ms)
    assert seen == [None, None, RTT * 1000]


async def test_a_conversation_knows_better(server):
    monitor = watching(server, OFFLINE, busy=lambda: True)
    async with monitor.watched():
        while server.asked < 3:
            await asyncio.sleep(0.001)
        assert monitor.link is OFFLINE
        monitor.link_changed(ONLINE)
        assert monitor.link is ONLINE


async def test_a_change_wakes_who_waits_and_nothing_else_does():
    monitor = watching(Server())
    waiting = asyncio.create_task(monitor.changed(60))
    await asyncio.sleep(0)
    monitor.link_changed(ONLINE)
    await asyncio.sleep(0)
    assert not waiting.done()
    monitor.link_changed(OFFLINE)
    await asyncio.wait_for(waiting, 10)
    await monitor.changed(0)


async def test_who_stirs_does_not_wait_for_the_next_sign(server, monkeypatch):
    monkeypatch.setattr(monitor_module, "_PROBE_INTERVAL_S", 3600)
    monitor = watching(server)
    async with monitor.watched():
        while not server.asked:
            await asyncio.sleep(0)
        server.is_there = False
        monitor.probe_now()
        await becomes(monitor, OFFLINE)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_who_looks_once_is_told_how_the_link_is_now():
    server, clock = Server(), Clock()
    monitor, seen = watching(server, clock=clock), []
    for is_there in (True, False, False, True):
        server.is_there = is_there
        clock.now += 3.0
        await monitor.refresh()
        seen.append(monitor.link)
    assert seen == [ONLINE, OFFLINE, OFFLINE, ONLINE]
    assert monitor.status().rtt_ms == RTT * 1000


async def test_many_who_look_cost_one_sign_of_life_in_a_while():
    server, clock = Server(), Clock()
    monitor = watching(server, clock=clock)
    await monitor.refresh()  # it has only just begun
    assert server.asked == 0
    clock.now += 3.0
    await asyncio.gather(*(monitor.refresh() for _ in range(100)))
    assert server.asked == 1
    clock.now += 1.0
    await monitor.refresh()
    assert server.asked == 1


async def test_who_goes_away_takes_nobody_s_sign_of_life_along():
    server, clock = Server(), Clock()
    monitor = watching(server, clock=clock)
    clock.now += 3.0
    server.is_there = False
    first, second = (asyncio.create_task(monitor.refresh()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert monitor.link is OFFLINE


@pytest.mark.parametrize("is_busy", [True, False])
async def test_nobody_is_asked_beside_a_conversation_or_an_onlooker(is_busy):
    server, clock = Server(), Clock()
    monitor = watching(server, clock=clock, busy=lambda: is_busy)
    clock.now += 3.0
    if is_busy:
        await monitor.refresh()
        assert server.asked == 0
        return
    async with monitor.watched():
        await monitor.refresh()
        assert server.asked == 0


class FakeConversation:
    def __init__(self, traffic: Traffic):
        self.traffic = traffic


async def test_bytes_count_after_their_conversation_has_ended():
    monitor = watching(Server())

    @asynccontextmanager
    async def opened(conversation):
        yield conversation

    first, second = FakeConversation(Traffic(1, 10)), FakeConversation(Traffic(2, 20))
    async with monitor.counted(opened(second)):
        async with monitor.counted(opened(first)) as conversation:
            assert conversation is first
            first.traffic = Traffic(3, 30)
        reading = monitor.status()
        assert (reading.bytes_up, reading.bytes_down) == (5, 50)
    assert monitor.status().bytes_up == 5


def test_the_speed_is_the_latest_answers():
    now = 0.0
    monitor = watching(Server(), clock=lambda: now)
    assert monitor.status().tokens_per_second is None
    first, second = monitor.begin(), monitor.begin()
    now = 2.0
    first.committed(100)
    second.committed(10)
    assert monitor.status().tokens_per_second == 5
    second.end()
    now = 10.0
    assert monitor.status().tokens_per_second == 5


class FakeConnection:
    """A connection that answers while it is whole."""

    def __init__(self):
        self.is_whole = True
        self.connection = self

    async def check(self) -> None:
        if not self.is_whole:
            await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is open."""


class FakeSharedConnection:
    def __init__(self):
        self.current = FakeConnection()

    async def renew_within(self, broken: FakeConnection, seconds: float) -> FakeConnection:
        assert broken is self.current
        self.current = FakeConnection()
        return self.current


async def test_signs_come_over_a_new_connection_where_the_old_one_is_silent(monkeypatch):
    monkeypatch.setattr(monitor_module, "_LEAST_TIMEOUT_S", 0.01)
    shared_connection = FakeSharedConnection()
    probe, first = HealthProbe(shared_connection), shared_connection.current
    assert await probe() >= 0
    assert shared_connection.current is first
    first.is_whole = False
    with pytest.raises(LinkError):
        await probe()
    assert await probe() >= 0
    second = shared_connection.current
    assert second is not first
    assert await probe() >= 0
    assert shared_connection.current is second


def silent_connection(dial) -> SharedConnection:
    """Its first connection says nothing, and `dial` makes each newer one."""
    shared_connection = SharedConnection(Access(Address("localhost", 1)), FakeConnection())
    shared_connection._dial = dial
    shared_connection.current.connection.is_whole = False
    return shared_connection


def test_a_connection_that_takes_longer_than_a_probe_waits_is_dialled_once():
    async def run():
        stands, dialled = asyncio.Event(), []

        async def dial() -> FakeConnection:
            dialled.append(1)
            await stands.wait()
            return FakeConnection()

        async with silent_connection(dial) as shared_connection:
            probe = HealthProbe(shared_connection)
            for _ in range(3):
                with pytest.raises(LinkError):
                    await probe()
            stands.set()
            assert await probe() >= 0
            assert len(dialled) == 1

    run_virtually(run())


def test_a_connection_that_another_has_renewed_is_not_given_up():
    async def run():
        shared_connection = FakeSharedConnection()
        probe = HealthProbe(shared_connection)
        shared_connection.current.is_whole = False
        with pytest.raises(LinkError):
            await probe()
        of_a_conversation = await shared_connection.renew_within(shared_connection.current, 1.0)
        assert await probe() >= 0
        assert shared_connection.current is of_a_conversation

    run_virtually(run())


def test_a_dial_that_fails_is_repeated_by_the_next_probe():
    async def run():
        refusals = [LinkError("the server refuses"), LinkError("the server refuses")]

        async def dial() -> FakeConnection:
            if refusals:
                raise refusals.pop()
            return FakeConnection()

        async with silent_connection(dial) as shared_connection:
            probe = HealthProbe(shared_connection)
            with pytest.raises(LinkError, match="no sign of life"):
                await probe()
            for _ in range(2):
                with pytest.raises(LinkError, match="refuses"):
                    await probe()
            assert await probe() >= 0

    run_virtually(run())


def test_a_connection_that_is_still_dialled_at_the_end_is_given_up():
    async def run():
        gone = asyncio.Event()

        async def dial() -> FakeConnection:
            try:
                return await asyncio.Event().wait()
            finally:
                gone.set()

        async with silent_connection(dial) as shared_connection:
            with pytest.raises(TimeoutError):
                await shared_connection.renew_within(shared_connection.current, 1.0)
        assert gone.is_set()

    run_virtually(run())


async def test_who_looks_is_not_kept_waiting_for_a_silent_link(server, monkeypatch):
    monkeypatch.setattr(monitor_module, "_LONGEST_REFRESH_S", 0.01)
    silent = asyncio.Event()

    async def probe() -> float:
        await silent.wait()
        return RTT

    clock = Clock()
    monitor = watching(probe, clock=clock)
    clock.now += 3.0
    await asyncio.wait_for(monitor.refresh(), 10)
    assert monitor.link is SUSPECT
    silent.set()
    await asyncio.wait_for(monitor.refresh(), 10)
    assert monitor.link is ONLINE


async def test_a_conversation_that_begins_beside_a_slow_probe_knows_the_link_better(monkeypatch):
    monkeypatch.setattr(monitor_module, "_LONGEST_REFRESH_S", 0.01)
    silent, is_busy = asyncio.Event(), False

    async def probe() -> float:
        nonlocal is_busy
        is_busy = True  # which it is from now on
        await silent.wait()
        return RTT

    clock = Clock()
    monitor = watching(probe, clock=clock, busy=lambda: is_busy)
    clock.now += 3.0
    await asyncio.wait_for(monitor.refresh(), 10)
    assert monitor.link is ONLINE


async def test_a_probe_that_is_slow_and_fails_is_asked_again_before_the_link_counts_as_gone(monkeypatch):
    monkeypatch.setattr(monitor_module, "_LONGEST_REFRESH_S", 0.01)
    fails, asked = asyncio.Event(), 0

    async def probe() -> float:
        nonlocal asked
        asked += 1
        if asked > 1:
            return RTT
        await fails.wait()
        raise LinkError("gone")

    clock = Clock()
    monitor = watching(probe, clock=clock)
    clock.now += 3.0
    await asyncio.wait_for(monitor.refresh(), 10)
    assert monitor.link is SUSPECT
    fails.set()
    await asyncio.wait_for(monitor.refresh(), 10)
    assert (monitor.link, asked) == (ONLINE, 2)


async def test_what_is_wrong_with_a_probe_itself_is_told(server):
    async def probe() -> float:
        raise ZeroDivisionError

    clock = Clock()
    monitor = watching(probe, clock=clock)
    clock.now += 3.0
    with pytest.raises(ZeroDivisionError):
        await monitor.refresh()
