"""The client's stream counts what came down, draft state by kind, and makes its call with the first message."""

import asyncio
from dataclasses import replace

import grpc
import pytest

from common.protocol.errors import MisuseError
from common.protocol.messages import Commit, FromServer, Open, Ping, Settings, State
from common.rpc.channel import MAX_FROM_CLIENT_BYTES
from common.rpc.convert import frame_from_client, frame_from_server
from common.rpc.errors import LinkError
from common.rpc.stub import PREFIX_BYTES, GenerateStream
from common.rpc.traffic import Traffic


class Call:
    """A gRPC call that delivers prepared frames."""

    def __init__(self, *messages: FromServer):
        self._frames = [frame_from_server(message) for message in messages]
        self.written = 0

    async def __aiter__(self):
        for frame in self._frames:
            yield frame

    async def write(self, frame) -> None:
        self.written += 1

    def cancel(self) -> bool:
        return True


def state(kind: str, size: int) -> State:
    return State(0, 0, 1, kind, "int8", (1, 8), bytes(size))


def size_bytes(*messages: FromServer) -> int:
    return sum(frame_from_server(message).ByteSize() + PREFIX_BYTES for message in messages)


async def test_draft_state_is_counted_by_kind_within_all_that_came_down():
    arrivals = [state("lsa", 100), Commit(0, 3, (7,)), state("kv", 400), state("lsa", 30)]
    stream = GenerateStream(lambda: Call(*arrivals), "somewhere")
    first = await stream.receive()
    before = stream.traffic
    for _ in arrivals[1:]:
        await stream.receive()
    assert first == arrivals[0]
    assert before == Traffic(0, size_bytes(arrivals[0]), {"lsa": size_bytes(arrivals[0])})
    by_kind = {"lsa": size_bytes(arrivals[0], arrivals[3]), "kv": size_bytes(arrivals[2])}
    assert stream.traffic == Traffic(0, size_bytes(*arrivals), by_kind)
    assert await stream.receive() is None, "the server has ended it"
    stream.close()


async def test_a_stream_begins_when_something_is_said_on_it():
    """A server does not wait long for the first frame of a stream."""
    begun = []

    def start() -> Call:
        begun.append(Call())
        return begun[-1]

    stream = GenerateStream(start, "somewhere")
    await asyncio.sleep(0.01)
    assert (begun, stream.traffic) == ([], Traffic())
    stream.send(Ping(1))
    await asyncio.sleep(0.01)
    assert [call.written for call in begun] == [1]
    assert stream.traffic.up > PREFIX_BYTES
    stream.close()


class Broken(Call):
    """Its connection broke, which a write notices first."""

    async def __aiter__(self):
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "cut")
        yield

    async def write(self, frame) -> None:
        await super().write(frame)
        raise asyncio.InvalidStateError


async def test_what_a_broken_stream_does_not_take_is_reported_to_its_reader():
    call = Broken()
    stream = GenerateStream(lambda: call, "somewhere")
    stream.send(Ping(1))
    stream.send(Ping(2))
    await asyncio.sleep(0.01)
    assert (call.written, stream.traffic.up) == (1, frame_from_client(Ping(1)).ByteSize() + PREFIX_BYTES)
    with pytest.raises(LinkError, match="somewhere"):
        await stream.receive()
    stream.close()


class Slow(Call):
    """Never has room for a frame."""

    async def write(self, frame) -> None:
        await asyncio.Event().wait()


async def test_a_frame_counts_from_when_it_begins_to_leave():
    """Until a long one has left, nobody can answer it, and whoever waits for an answer must know that."""
    call = Slow()
    stream = GenerateStream(lambda: call, "somewhere")
    stream.send(Ping(1))
    await asyncio.sleep(0.01)
    assert (call.written, stream.traffic.up) == (0, frame_from_client(Ping(1)).ByteSize() + PREFIX_BYTES)
    stream.close()


async def test_whoever_made_it_is_told_once_that_it_is_closed():
    told = []

    async def on_close() -> None:
        told.append("closed")

    stream = GenerateStream(Call, "somewhere", on_close)
    for _ in range(2):
        stream.close()
        await asyncio.sleep(0.01)
    assert told == ["closed"]


async def test_a_stream_that_is_closed_before_its_call_makes_none():
    def start() -> Call:
        raise AssertionError("a call after close")

    stream = GenerateStream(start, "somewhere")
    stream.close()
    assert await stream.receive() is None


class Cancellable(Call):
    """Nothing comes; it ends as gRPC's calls do that were cancelled."""

    def __init__(self):
        super().__init__()
        self._cancelled = asyncio.Event()

    async def __aiter__(self):
        await self._cancelled.wait()
        raise asyncio.CancelledError
        yield

    def cancel(self) -> bool:
        self._cancelled.set()
        return True


@pytest.mark.parametrize("reads_first", [True, False])
async def test_what_is_longer_than_a_server_takes_is_not_sent(reads_first: bool):
    """gRPC says the same of it as of a broken connection, after which the client would try for ever."""
    call = Cancellable()
    stream = GenerateStream(lambda: call, "somewhere")
    reading = asyncio.create_task(stream.receive())
    if reads_first:
        await asyncio.sleep(0.01)
    stream.send(opening_of(MAX_FROM_CLIENT_BYTES + 1))
    with pytest.raises(MisuseError, match=f"too long to be sent: {MAX_FROM_CLIENT_BYTES + 1:,} bytes"):
        await asyncio.wait_for(reading, 5)
    assert (call.written, stream.traffic.up) == (0, 0)
    stream.close()


async def test_what_is_as_long_as_a_server_takes_is_sent():
    call = Call()
    stream = GenerateStream(lambda: call, "somewhere")
    stream.send(opening_of(MAX_FROM_CLIENT_BYTES))
    await asyncio.sleep(0.01)
    assert call.written == 1
    stream.close()


def opening_of(size_bytes: int) -> Open:
    """An Open whose frame has that size."""
    plain = Open(1, "", "a session's id", 0, (1,) * (size_bytes - 100), 0, Settings(1))
    padding = size_bytes - frame_from_client(plain).ByteSize()
    opened = replace(plain, tokens=(1,) * (size_bytes - 100 + padding))
    assert frame_from_client(opened).ByteSize() == size_bytes
    return opened
