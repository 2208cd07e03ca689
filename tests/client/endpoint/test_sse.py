"""Events reach their readers, and a reader that is gone or does not read is dropped."""

import asyncio
import json

import pytest

from client.endpoint import sse
from client.endpoint.sse import EventStream, event


class Client:
    """Reads until it is told to leave, or not at all."""

    def __init__(self, reads: bool = True):
        self.leaves = asyncio.Event()
        self.received: list[dict] = []
        self._reads = reads

    async def receive(self):
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        if not self._reads and message["type"] == "http.response.body":
            await asyncio.Event().wait()
        self.received.append(message)


async def serve(events, client) -> list[str]:
    ended = []
    await asyncio.wait_for(
        EventStream(events, lambda: ended.append("ended"))({"type": "http"}, client.receive, client.send), 10
    )
    return ended


async def three():
    for number in range(3):
        yield event({"number": number})


async def forever():
    yield event({"number": 0})
    await asyncio.Event().wait()


async def test_all_events_are_sent_and_the_stream_is_closed():
    client = Client()
    assert await serve(three(), client) == ["ended"]
    body = b"".join(message.get("body", b"") for message in client.received)
    assert body == b'data: {"number":0}\n\ndata: {"number":1}\n\ndata: {"number":2}\n\n'
    assert client.received[-1]["more_body"] is False


async def test_who_leaves_ends_it_while_nothing_is_said():
    client = Client()
    serving = asyncio.create_task(serve(forever(), client))
    while len(client.received) < 2:
        await asyncio.sleep(0)
    client.leaves.set()
    assert await serving == ["ended"]


async def test_who_never_reads_is_given_up(monkeypatch):
    monkeypatch.setattr(sse, "_STALL_S", 0.01)
    client = Client(reads=False)
    assert await serve(three(), client) == ["ended"]
    assert not any(message.get("body") for message in client.received)


@pytest.mark.parametrize("text", ["two\n\nlines", "ünïcode", "a\u2028b", "a\u2029b", "a\x85b", "data: x"])
def test_an_event_is_one_line_whatever_it_says_and_however_a_client_splits_lines(text):
    line = event({"text": text}).decode()
    assert line.endswith("\n\n")
    assert len(line.splitlines()) == 2  # the empty one is its end
    assert json.loads(line.removeprefix("data: ")) == {"text": text}
