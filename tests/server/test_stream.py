"""What waits for a client is bounded, ordered, and still sent after the end."""

from common.protocol.messages import Failed, Opened
from server.stream import MAX_WAITING, Stream


async def test_what_waits_at_the_end_is_still_sent() -> None:
    stream = Stream()
    stream.put(Opened("a"))
    stream.end()
    stream.put(Opened("late"))
    assert [message async for message in stream] == [Opened("a")]


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    stream = Stream()
    for _ in range(MAX_WAITING + 5):
        stream.put(Opened("a"))
    (last,) = [message async for message in stream]
    assert isinstance(last, Failed)
    assert stream.ended
