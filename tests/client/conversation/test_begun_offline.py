"""Answers that begin without a link, or on one that never answers."""

import asyncio

from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from common.protocol.messages import Cancel, FailureCode, Settings
from common.rpc.errors import LinkError
from tests.client.conversation.conversations import COUNT, PROMPT, Refusing, Server, Shown, ask, conversation, now
from tests.client.fakes import ChainDrafter, FakeStream, decoded, sometimes, target


async def test_a_server_that_was_never_reached_verifies_when_it_appears():
    talk = conversation(None, Server(back=0.3), ChainDrafter(sometimes, depth=400))
    answer = await ask(talk)
    talk.close()
    assert answer.tokens == decoded(PROMPT, COUNT)
    assert answer.stats.reconnects == 0, "there was no stream before"
    assert answer.stats.rtt_ms < 250, "the wait for the server is no round trip"


async def test_a_first_stream_that_breaks_before_it_answers_is_written_on_alone_and_told():
    told = []
    stream = FakeStream()
    stream.send = lambda message: stream._frames.put_nowait(LinkError("nobody is there"))
    talk = conversation(stream, Server(back=1000), ChainDrafter(target, depth=400), offline=OfflineOptions(30, 0.2))
    answer = await asyncio.wait_for(talk.answer(PROMPT, Settings(COUNT), Shown(), told.append), 20)
    talk.close()
    assert told[0] is LinkState.OFFLINE
    assert answer.provisional == decoded(PROMPT, 30)


async def test_an_answer_that_begins_without_a_link_is_told_so_each_time():
    talk = conversation(None, Server(back=1000), ChainDrafter(target, depth=400), offline=OfflineOptions(5, 0.1))
    for _ in range(2):
        told = []
        await asyncio.wait_for(talk.answer(PROMPT, Settings(COUNT), Shown(), told.append), 20)
        assert told[0] is LinkState.OFFLINE
    talk.close()


async def test_a_wait_for_the_server_is_told_when_it_begins():
    talk = conversation(None, Server(back=1000), ChainDrafter(target, depth=400), offline=OfflineOptions(5, 0.3))
    shown, told = Shown(), []
    talk.on_wait = lambda seconds: told.append((seconds, shown.provisional))
    await ask(talk, shown)
    talk.close()
    assert told == [(0.3, decoded(PROMPT, 5))]


async def test_a_server_that_appears_too_busy_is_tried_again():
    streams = iter([Refusing(FailureCode.OVERLOADED), FakeStream()])

    async def dial():
        return next(streams)

    talk = conversation(None, dial, ChainDrafter(target, depth=400))
    answer = await ask(talk)
    talk.close()
    assert (answer.tokens, answer.finish_reason) == (decoded(PROMPT, COUNT), "length")


async def test_a_first_stream_that_never_answers_does_not_hold_up_a_cancel():
    async def dial():
        await asyncio.Event().wait()

    stream = FakeStream()
    stream.send = lambda message: None
    talk = conversation(stream, dial, ChainDrafter(target))
    asking = asyncio.create_task(ask(talk))
    await asyncio.sleep(0.1)
    began = now()
    talk.cancel()
    assert (await asking).finish_reason == "cancelled"
    assert now() - began < 1.0
    talk.close()


async def test_a_cancel_in_the_moment_in_which_the_server_answers_reaches_it():
    async def dial():
        talk.cancel()
        return stream

    stream = FakeStream(pass_seconds=0.01)
    talk = conversation(None, dial, ChainDrafter(target))
    assert (await ask(talk)).finish_reason == "cancelled"
    assert Cancel(0) in stream.sent
    talk.close()
