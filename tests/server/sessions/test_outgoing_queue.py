"""The queue of messages to a client is bounded and ordered, and still sent after the end."""

from common.protocol.messages import Commit, Failed, Opened, State
from server.sessions.outgoing_queue import MAX_WAITING, MAX_WAITING_STATE, OutgoingQueue


def state(start: int) -> State:
    return State(0, start, 1, "lsa", "int8", (1, 4), b"")


async def test_what_waits_at_the_end_is_still_sent() -> None:
    stream = OutgoingQueue()
    stream.put(Opened("a"))
    stream.end()
    stream.put(Opened("late"))
    assert [message async for message in stream] == [Opened("a")]


async def test_the_end_is_told_once() -> None:
    told: list[None] = []
    stream = OutgoingQueue("someone", lambda: told.append(None))
    stream.put(Opened("a"))
    assert not told
    stream.end()
    stream.end()
    assert len(told) == 1


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    for message in (Opened("a"), state(0)):
        stream = OutgoingQueue()
        for _ in range(MAX_WAITING + 5):
            stream.put(message)
        (last,) = [message async for message in stream]
        assert isinstance(last, Failed)
        assert stream.ended


async def test_a_client_that_acknowledges_draft_state_without_reading_it_is_cut_off() -> None:
    stream, large = OutgoingQueue(), State(0, 0, 1, "lsa", "int8", (1, 4), b"x" * 16384)
    for _ in range(MAX_WAITING_STATE // 16384):
        stream.put(large)
    reading = aiter(stream)
    for _ in range(5):
        assert await anext(reading) is large
        stream.put(large)
    assert not stream.ended
    for _ in range(2):
        stream.put(large)
    assert stream.ended
    assert isinstance(await anext(reading), Failed)


async def test_tokens_overtake_draft_state_that_waits() -> None:
    stream = OutgoingQueue()
    messages = [Commit(0, 3, (1,)), state(0), state(1), Commit(0, 4, (2,)), state(2)]
    for message in messages:
        stream.put(message)
    waiting = aiter(stream)
    first = [await anext(waiting) for _ in range(3)]
    assert first == [messages[0], messages[3], messages[1]]
    stream.put(Commit(0, 5, (3,)))
    assert [await anext(waiting) for _ in range(3)] == [Commit(0, 5, (3,)), messages[2], messages[4]]


async def test_draft_state_that_still_waits_at_the_end_is_dropped() -> None:
    stream = OutgoingQueue()
    stream.put(state(0))
    stream.put(Opened("a"))
    stream.end()
    assert [message async for message in stream] == [Opened("a")]
