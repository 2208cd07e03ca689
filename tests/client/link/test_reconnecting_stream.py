"""A session's stream that is watched, given up and dialled again, on a clock that only its own waits advance."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from client.link.link_state import LinkState
from client.link.reconnecting_stream import ReconnectingStream
from common.protocol.errors import OutriderError
from common.protocol.messages import Ack, Commit, Opened, Ping, Pong
from common.rpc.errors import LinkError
from common.rpc.traffic import Traffic
from netem.virtual.clock import run_virtually

ROUND_TRIP = 0.05
GREETING = Opened("a session of a test")
REFUSED = LinkError("nobody is there")


class FakeStream:
    """Answers every Ping one round trip later for as long as it is not `silent`."""

    def __init__(self, up: int = 100, silent: bool = False):
        self.traffic = Traffic(up, 10 * up, {"lsa": up})
        self.sent = []
        self.silent = silent
        self.closed_at: float | None = None
        self._frames: asyncio.Queue = asyncio.Queue()

    def send(self, message):
        self.sent.append(message)
        if isinstance(message, Ping) and not self.silent:
            asyncio.get_running_loop().call_later(ROUND_TRIP, self.say, Pong(message.number))

    def say(self, message):
        self._frames.put_nowait(message)

    async def receive(self):
        message = await self._frames.get()
        if isinstance(message, OutriderError):
            raise message
        return message

    def close(self):
        if self.closed_at is None:
            self.closed_at = now()
            self.say(LinkError("the stream was closed"))

    @property
    def pings(self):
        return [message.number for message in self.sent if isinstance(message, Ping)]


class Dialler:
    """The result of each attempt in turn: a stream, an error, or the seconds for which nothing happens."""

    def __init__(self, *outcomes):
        self.attempts: list[float] = []
        self._outcomes = iter(outcomes)

    async def __call__(self):
        self.attempts.append(now())
        outcome = next(self._outcomes)
        if isinstance(outcome, float):
            await asyncio.sleep(outcome)
            return FakeStream()
        if isinstance(outcome, LinkError):
            raise outcome
        return outcome


def now() -> float:
    return asyncio.get_running_loop().time()


class Heard(list):
    def __call__(self, state):
        self.append((now(), state))

    @property
    def states(self):
        return [state for _, state in self]

    def at(self, state: LinkState) -> float:
        return next(when for when, each in self if each is state)


def reconnecting_stream(stream, dial=None, listener=None) -> ReconnectingStream:
    return ReconnectingStream(stream, dial, Heard() if listener is None else listener, lambda: now(), lambda: 0.5)


@asynccontextmanager
async def kept(line: ReconnectingStream):
    keeping = asyncio.create_task(line.run_heartbeat())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def greeted(line: ReconnectingStream, stream: FakeStream) -> None:
    stream.say(GREETING)
    assert await line.receive() == GREETING
    line.expect_answer()


def test_the_first_thing_that_is_heard_may_be_that_the_stream_broke():
    async def run():
        listener, stream = Heard(), FakeStream()
        line = reconnecting_stream(stream, Dialler(0.1), listener)
        stream.say(REFUSED)
        with pytest.raises(LinkError):
            await line.receive()
        assert listener.states == [LinkState.OFFLINE]

    run_virtually(run())


def test_silence_is_asked_about_and_a_pong_is_not_handed_on():
    async def run():
        listener, stream = Heard(), FakeStream()
        line = reconnecting_stream(stream, listener=listener)
        assert (line.state, line.is_good) == (LinkState.RESUMING, True)
        async with kept(line):
            await greeted(line, stream)
            asyncio.get_running_loop().call_later(5.0, stream.say, Commit(0, 3, (4,)))
            assert await line.receive() == Commit(0, 3, (4,))
            assert now() == pytest.approx(5.0, abs=0.01)
        assert stream.pings == list(range(1, len(stream.pings) + 1))
        assert len(stream.pings) > 10
        assert listener.states == [LinkState.ONLINE]

    run_virtually(run())


def test_a_server_that_has_nothing_to_say_is_not_asked():
    async def run():
        stream = FakeStream()
        line = reconnecting_stream(stream)
        async with kept(line):
            await greeted(line, stream)
            line.expect_nothing()
            asyncio.get_running_loop().call_later(60.0, stream.say, GREETING)
            await line.receive()
        assert stream.pings == []

    run_virtually(run())


def test_a_stream_that_falls_silent_is_suspected_then_given_up():
    async def run():
        listener, stream = Heard(), FakeStream()
        line = reconnecting_stream(stream, listener=listener)
        async with kept(line):
            await greeted(line, stream)
            stream.silent = True
            began = now()
            with pytest.raises(LinkError):
                await line.receive()
        assert listener.states == [LinkState.ONLINE, LinkState.SUSPECT, LinkState.OFFLINE]
        assert stream.closed_at == pytest.approx(listener.at(LinkState.OFFLINE), abs=0.01)
        assert 0.1 < listener.at(LinkState.SUSPECT) - began < 1.0
        assert listener.at(LinkState.OFFLINE) - listener.at(LinkState.SUSPECT) >= 1.0
        assert not line.is_good

    run_virtually(run())


def test_a_stream_that_stands_is_kept_by_a_process_that_did_not_run():
    async def run():
        asleep, listener, stream = [0.0], Heard(), FakeStream()
        line = ReconnectingStream(stream, None, listener, lambda: now() + asleep[0], lambda: 0.5)
        async with kept(line):
            await greeted(line, stream)
            reading = asyncio.create_task(line.receive())
            for _ in range(20):
                await asyncio.sleep(0.3)
                asleep[0] += 30.0
            assert listener.states == [LinkState.ONLINE]
            stream.silent = True
            while line.state is not LinkState.SUSPECT:
                await asyncio.sleep(0.01)
            asleep[0] += 30.0
            await asyncio.sleep(1.2)  # longer than a suspect stream is waited for
            stream.say(Pong(1))
            await asyncio.sleep(0.01)
            assert (line.state, stream.closed_at) == (LinkState.ONLINE, None)
            with pytest.raises(LinkError):
                await reading
        assert line.lost_by.startswith("the server was silent for 1.")

    run_virtually(run())


def test_a_late_answer_ends_the_suspicion_on_the_same_stream():
    async def run():
        listener, stream = Heard(), FakeStream()
        line = reconnecting_stream(stream, listener=listener)
        async with kept(line):
            await greeted(line, stream)
            stream.silent = True
            waiting = asyncio.create_task(line.receive())
            while line.state is not LinkState.SUSPECT:
                await asyncio.sleep(0.01)
            stream.silent = False
            stream.say(Pong(1))
            await asyncio.sleep(3.0)
            assert not waiting.done()
            waiting.cancel()
        assert listener.states == [LinkState.ONLINE, LinkState.SUSPECT, LinkState.ONLINE]
        assert stream.closed_at is None
        assert line.reconnects == 0

    run_virtually(run())


def test_a_lost_stream_is_renewed_with_longer_and_longer_pauses():
    async def run():
        stream, fresh = FakeStream(), FakeStream()
        dialler, listener = Dialler(REFUSED, REFUSED, REFUSED, REFUSED, fresh), Heard()
        line = reconnecting_stream(stream, dialler, listener)
        await greeted(line, stream)
        stream.say(REFUSED)
        with pytest.raises(LinkError, match="nobody"):
            await line.receive()
        assert line.lost_by == str(REFUSED)
        lost = now()
        await line.reconnect()
        pauses = [later - earlier for earlier, later in zip([lost, *dialler.attempts], dialler.attempts, strict=False)]
        assert pauses == pytest.approx([0.075, 0.15, 0.3, 0.375, 0.375], abs=0.01)
        assert (line.state, line.is_good, line.reconnects) == (LinkState.RESUMING, False, 0)
        line.send(Ack(0, 1))
        assert fresh.sent == [Ack(0, 1)]
        await greeted(line, fresh)
        assert (line.state, line.is_good, line.reconnects) == (LinkState.ONLINE, True, 1)

    run_virtually(run())


def test_a_person_in_a_hurry_does_not_wait_for_the_pause():
    async def run():
        stream = FakeStream()
        dialler = Dialler(*[REFUSED] * 400, stream)
        line = reconnecting_stream(None, dialler)
        renewing = asyncio.create_task(line.reconnect())
        await asyncio.sleep(100.0)
        waited = now() - dialler.attempts[-1]
        tried = len(dialler.attempts)
        assert waited < 8.0
        await asyncio.sleep(1.0)
        assert len(dialler.attempts) == tried
        line.retry_now()
        await asyncio.sleep(0.001)
        assert len(dialler.attempts) == tried + 1
        renewing.cancel()

    run_virtually(run())


def test_a_dial_goes_on_for_as_long_as_the_outage():
    """It tries again itself; an attempt that breaks just before it succeeds costs a pause."""

    async def run():
        dialler = Dialler(40.0)
        line = reconnecting_stream(None, dialler)
        await line.reconnect()
        assert len(dialler.attempts) == 1
        assert now() - dialler.attempts[0] == pytest.approx(40.0)
        assert line.state is LinkState.RESUMING

    run_virtually(run())


@pytest.mark.parametrize(("up", "upload_s"), [(0, 0.0), (80_000, 5.0)])
def test_a_new_stream_that_never_answers_is_given_up_later_by_what_it_has_sent(up, upload_s):
    async def run():
        mute = FakeStream(up, silent=True)
        line = reconnecting_stream(None, Dialler(mute))
        await line.reconnect()
        line.expect_answer()
        async with kept(line):
            began = now()
            with pytest.raises(LinkError):
                await line.receive()
        assert now() - began == pytest.approx(6.0 + upload_s, abs=0.1)
        assert mute.closed_at is not None
        assert mute.pings == []

    run_virtually(run())


def test_an_answer_that_comes_while_a_long_prompt_leaves_does_not_end_the_wait_for_it():
    """A Pong to a probe of the last answer may have waited unread."""

    async def run():
        stream = FakeStream()
        line = reconnecting_stream(stream)
        async with kept(line):
            await greeted(line, stream)
            stream.silent, stream.traffic = True, Traffic(80_100, 0, {})
            stream.say(Pong(1))
            began = now()
            with pytest.raises(LinkError):
                await line.receive()
        assert 6.0 <= now() - began <= 9.0

    run_virtually(run())


def test_traffic_is_that_of_all_streams():
    async def run():
        first, second = FakeStream(up=100), FakeStream(up=7)
        line = reconnecting_stream(first, Dialler(REFUSED, second))
        assert line.traffic == Traffic(100, 1000, {"lsa": 100})
        line.drop()
        assert line.traffic == Traffic(100, 1000, {"lsa": 100})
        await line.reconnect()
        assert line.traffic == Traffic(107, 1070, {"lsa": 107})
        line.drop()
        assert line.traffic == Traffic(107, 1070, {"lsa": 107})

    run_virtually(run())


def test_without_a_stream_nothing_is_sent_and_without_a_dial_none_is_made():
    async def run():
        line = reconnecting_stream(None)
        line.send(Ack(0, 1))
        line.close()
        assert (line.state, line.is_good, line.can_reconnect) == (LinkState.OFFLINE, False, False)
        assert line.traffic == Traffic()
        with pytest.raises(LinkError, match="cannot be reached"):
            await line.receive()

    run_virtually(run())


def test_a_server_that_a_person_does_not_want_is_left_alone_until_it_is_wanted():
    async def run():
        listener, stream, fresh = Heard(), FakeStream(), FakeStream()
        dialler = Dialler(fresh)
        line = reconnecting_stream(stream, dialler, listener)
        await greeted(line, stream)
        line.expect_nothing()
        line.hold()
        assert (line.is_held, line.state) == (True, LinkState.OFFLINE)
        assert stream.closed_at is not None
        renewing = asyncio.create_task(line.reconnect())
        await asyncio.sleep(100.0)
        line.retry_now()
        await asyncio.sleep(100.0)
        assert dialler.attempts == []
        line.release()
        await renewing
        assert dialler.attempts == [pytest.approx(200.0)]

    run_virtually(run())
