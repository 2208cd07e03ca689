"""The queued stream counts what came down, draft state by kind."""

import asyncio
from functools import partial

from client.link.stream import QueuedStream
from client.stats import Traffic
from common.protocol.messages import Commit, State


class Wire:
    """A stream that delivers what a test wrote down, each message of a stated size."""

    def __init__(self, arrivals):
        self.bytes_up = 0
        self.bytes_down = 0
        self._arrivals = iter(arrivals)

    async def send(self, message):
        self.bytes_up += 7

    async def receive(self):
        size, message = next(self._arrivals)
        self.bytes_down += size
        return message

    def close(self):
        pass


async def test_draft_state_is_counted_by_kind_within_all_that_came_down():
    def state(kind: str) -> State:
        return State(0, 0, 1, kind, "int8", (1, 8), b"")

    arrivals = [(100, state("lsa")), (9, Commit(0, 3, (7,))), (400, state("kv")), (30, state("lsa"))]
    stream = QueuedStream(partial(Wire, arrivals))
    first = await stream.receive()
    before = stream.traffic
    for _ in arrivals[1:]:
        await stream.receive()
    assert first == state("lsa")
    assert before == Traffic(0, 100, {"lsa": 100})
    assert stream.traffic == Traffic(0, 539, {"lsa": 130, "kv": 400})
    stream.close()


async def test_a_stream_begins_when_something_is_said_on_it():
    """A server does not wait long for the first frame of a stream."""
    begun = []

    def begin() -> Wire:
        begun.append(Wire([]))
        return begun[-1]

    stream = QueuedStream(begin)
    await asyncio.sleep(0.01)
    assert (begun, stream.traffic) == ([], Traffic())
    stream.send(Commit(0, 3, (7,)))
    await asyncio.sleep(0.01)
    assert len(begun) == 1
    assert stream.traffic.up == 7
    stream.close()
