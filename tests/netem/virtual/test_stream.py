"""A session's stream in virtual time: frames of their own size, both ways, in order."""

import asyncio
from dataclasses import replace

import pytest

from common.pacing import WAKE_S
from common.protocol.client_session import ClientSession
from common.protocol.messages import Cancel, Commit, Finished, Opened, Settings, State
from common.rpc.convert import frame_from_client, frame_from_server
from netem.links.profile import Direction, LinkProfile
from netem.links.way import both_ways
from netem.virtual.clock import VirtualWorker, run_virtually
from netem.virtual.link import VirtualLink
from netem.virtual.stream import HANDLING_S, VirtualStream
from netem.virtual.tcp import connect
from server.engine import Engine
from server.options import Pace
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import LIMITS, SERVING_LIMITS, TERMS
from tests.server.fake_target import STATE, STATE_KINDS, FakeTarget, decode

PREFIX = 5
"""Bytes that gRPC puts before a message."""
WAY = 0.04
THERE_AND_BACK = 2 * (WAY + HANDLING_S)
PROMPT = [3, 4, 5]


def link(delay_s: float) -> LinkProfile:
    direction = Direction(delay_ms=delay_s * 1000)
    return LinkProfile("plain", "a delay alone", direction, direction)


def make_engine() -> Engine:
    terms = replace(TERMS, end_tokens=frozenset(), state_kinds=lambda request: STATE_KINDS)
    fake_target = FakeTarget()
    sessions = Sessions(terms, SERVING_LIMITS, 500)
    clock = asyncio.get_running_loop().time
    return Engine(sessions, fake_target, Pace(per_pass=0.01), fake_target, clock=clock, make_worker=VirtualWorker)


async def one_answer(profile: LinkProfile) -> tuple[list[tuple[float, object]], VirtualStream, int, list[int]]:
    """One answer of 6 tokens: what came when, the stream, the bytes that were sent, and the answer."""
    loop = asyncio.get_running_loop()
    engine = make_engine()
    running = asyncio.create_task(engine.run())
    stream = VirtualStream(engine, *connect(*both_ways(profile)))
    session = ClientSession("a session on a wire", LIMITS, STATE)
    sent, heard = 0, list[tuple[float, object]]()
    messages = [session.open(PROMPT, Settings(6))]
    while session.finished is None:
        for message in messages:
            if message is not None:
                sent += frame_from_client(message).ByteSize() + PREFIX
                stream.send(message)
        received = await stream.receive()
        heard.append((loop.time(), received))
        session.receive(received)
        messages = [session.acknowledge(), session.acknowledge_state()]
    stream.close()
    assert len(engine.sessions) == 0
    running.cancel()
    return heard, stream, sent, session.answer


def test_an_answer_comes_over_the_link_and_takes_its_time() -> None:
    heard, _, _, answer = run_virtually(one_answer(link(WAY)))
    assert answer == decode(PROMPT, 6, end=-1)
    assert isinstance(heard[0][1], Opened)
    assert heard[0][0] == pytest.approx(THERE_AND_BACK, abs=1e-6)
    commits = [at for at, message in heard if isinstance(message, Commit)]
    assert commits == pytest.approx([THERE_AND_BACK + (0.01 + WAKE_S) * (number + 1) for number in range(6)], abs=1e-6)
    assert isinstance(heard[-1][1], Finished)


def test_traffic_is_counted_in_the_sizes_of_frames_as_grpc_carries_them() -> None:
    heard, stream, sent, _ = run_virtually(one_answer(link(WAY)))
    sizes = {kind.name: 0 for kind in STATE_KINDS}
    everything = 0
    for _, message in heard:
        size = frame_from_server(message).ByteSize() + PREFIX  # type: ignore[arg-type]
        everything += size
        if isinstance(message, State):
            sizes[message.kind] += size
    assert min(sizes.values()) > 0
    assert stream.traffic.up == sent
    assert (stream.traffic.down, dict(stream.traffic.state)) == (everything, sizes)


@pytest.mark.parametrize("heard", [0, 1, 3])
def test_what_is_under_way_when_the_stream_is_closed_is_nobodys_failure(heard: int) -> None:
    async def leave_early() -> Engine:
        engine = make_engine()
        running = asyncio.create_task(engine.run())
        stream = VirtualStream(engine, *connect(*both_ways(link(WAY))))
        session = ClientSession("a session that is left", LIMITS, STATE)
        stream.send(session.open(PROMPT, Settings(6)))
        for _ in range(heard):
            session.receive(await stream.receive())
        stream.send(Cancel(session.turn))
        stream.close()
        await asyncio.sleep(10 * WAY)
        running.cancel()
        return engine

    engine = run_virtually(leave_early())
    assert engine.counters.failed == engine.counters.refused == {}
    assert engine.counters.sessions == min(heard, 1)
    assert len(engine.sessions) == 0


def test_where_there_is_no_link_nothing_but_messages_and_passes_takes_time() -> None:
    heard, _, _, _ = run_virtually(one_answer(link(0.0)))
    assert heard[-1][0] == pytest.approx(2 * HANDLING_S + 6 * (0.01 + WAKE_S), abs=1e-5)


def test_messages_are_handled_in_order_and_beside_each_other() -> None:
    async def flood() -> list[tuple[float, object]]:
        loop, heard = asyncio.get_running_loop(), []

        class Listening(Engine):
            def receive(self, listener: object, message: object) -> None:
                heard.append((loop.time(), message))

            def leave(self, listener: object) -> None:
                heard.append((loop.time(), "left"))

        engine = make_engine()
        engine.__class__ = Listening
        stream = VirtualLink(engine, link(WAY)).stream()
        for turn in range(50):
            stream.send(Cancel(turn))
        stream.close()
        await asyncio.sleep(2 * WAY)
        return heard

    heard = run_virtually(flood())
    assert [message for _, message in heard] == [*(Cancel(turn) for turn in range(50)), "left"]
    assert [at for at, _ in heard] == pytest.approx([WAY + HANDLING_S] * 51, abs=1e-5)


def test_state_waits_for_room_on_the_link_and_lets_commits_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst of state fills the send buffer; what does not fit waits where a Commit overtakes it."""

    async def burst() -> list[object]:
        narrow = Direction(rate_bits_per_s=1e6, delay_ms=1000 * WAY, queue_bytes=10**6)
        stream = VirtualStream(make_engine(), *connect(*both_ways(LinkProfile("narrow", "1 Mbit/s", narrow, narrow))))
        for start in range(20):
            stream._far.put(State(0, start, 1, "state", "int8", (8192,), bytes(8192)))
        await asyncio.sleep(HANDLING_S)
        stream._far.put(Opened("a session"))
        heard: list[object] = [await stream.receive() for _ in range(21)]
        stream.close()
        return heard

    kinds = [type(message) for message in run_virtually(burst())]
    assert 1 <= kinds.index(Opened) <= 10
