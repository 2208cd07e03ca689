"""Conversations that the user takes offline, and offline answers judged afterwards."""

import asyncio

import pytest

from client.answer import OFFLINE
from client.link.offline import OfflineOptions
from common.protocol.messages import Grow, Settings
from tests.client.conversation.conversations import COUNT, PROMPT, Server, Shown, ask, conversation
from tests.client.fakes import ChainDrafter, FakeStream, decoded, sometimes, target

FOREVER = OfflineOptions(limit_tokens=8, wait_s=1e9)


def drafter(propose=target) -> ChainDrafter:
    return ChainDrafter(propose, depth=400)


async def offered(talk, tokens, run, shown=None):
    answering = talk.answer(tokens, Settings(COUNT), Shown() if shown is None else shown, offered=run)
    return await asyncio.wait_for(answering, 20)


async def test_while_it_is_held_nobody_is_asked_or_waited_for():
    stream, server = FakeStream(), Server()
    talk = conversation(stream, server, drafter(), offline=FOREVER)
    talk.hold()
    answer = await ask(talk)
    talk.retry_now()
    again = await ask(talk, tokens=(*PROMPT, *answer.provisional, 2))
    talk.close()
    assert (stream.sent, server.attempts) == ([], 0)
    for each, prompt in ((answer, PROMPT), (again, (*PROMPT, *answer.provisional, 2))):
        assert (each.tokens, each.finish_reason) == ((), OFFLINE)
        assert each.provisional == decoded(prompt, 8)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("propose", [target, sometimes])
async def test_what_was_written_meanwhile_is_judged_afterwards_and_the_answer_is_the_targets(begun, propose):
    server = Server()
    talk = conversation(FakeStream(), server, drafter(propose), offline=FOREVER)
    if begun:
        await ask(talk)
    talk.hold()
    alone = await ask(talk, tokens=(*PROMPT, 7))
    talk.release()
    answer = await offered(talk, (*PROMPT, 7), alone.provisional)
    talk.close()
    assert answer.tokens == decoded((*PROMPT, 7), COUNT)
    (opened,) = server.opened
    assert opened.tokens == (*PROMPT, 7)
    grow = next(message for message in server.streams[0].sent if isinstance(message, Grow))
    assert tuple(node.token for node in grow.nodes)[:8] == alone.provisional


async def test_what_is_offered_is_judged_on_a_stream_that_stands_in_one_pass():
    stream = FakeStream()
    talk = conversation(stream, Server(), drafter())
    await ask(talk)
    passes = stream.passes
    answer = await offered(talk, (*PROMPT, 7), decoded((*PROMPT, 7), COUNT))
    talk.close()
    assert answer.tokens == decoded((*PROMPT, 7), COUNT)
    assert stream.passes - passes <= 3


async def test_what_is_offered_is_lost_to_nobody_where_the_server_stays_away():
    talk = conversation(None, Server(back=1e9), drafter(), offline=OfflineOptions(limit_tokens=4, wait_s=0.1))
    run = decoded(PROMPT, 12)
    answer = await offered(talk, PROMPT, run)
    talk.close()
    assert (answer.tokens, answer.provisional) == ((), run)
