"""The queued stream counts what came down, draft state by kind, and begins its call with the first message."""

import asyncio

from client.link.stream import QueuedStream
from client.stats import Traffic
from common.protocol.messages import Commit, FromServer, Ping, State
from common.rpc.convert import frame_from_server
from common.rpc.stub import GenerateStream

_PREFIX_BYTES = 5


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
    return sum(frame_from_server(message).ByteSize() + _PREFIX_BYTES for message in messages)


async def test_draft_state_is_counted_by_kind_within_all_that_came_down():
    arrivals = [state("lsa", 100), Commit(0, 3, (7,)), state("kv", 400), state("lsa", 30)]
    stream = QueuedStream(lambda: GenerateStream(Call(*arrivals), "somewhere"))
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

    def begin() -> GenerateStream:
        begun.append(Call())
        return GenerateStream(begun[-1], "somewhere")

    stream = QueuedStream(begin)
    await asyncio.sleep(0.01)
    assert (begun, stream.traffic) == ([], Traffic())
    stream.send(Ping(1))
    await asyncio.sleep(0.01)
    assert [call.written for call in begun] == [1]
    assert stream.traffic.up > _PREFIX_BYTES
    stream.close()
