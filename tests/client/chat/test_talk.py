"""What is said, with a real server underneath: questions in turn, again, without the server, and judged afterwards."""

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from client.answering import AnswerOptions
from client.assembly import client_for
from client.chat.talk import Talk
from client.chat.transcript import Exchange
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import CLOUD, STREAM
from client.errors import RefusedError, TooLongError
from client.link.offline import Offline
from client.link.reconnecting_stream import unheard
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.address import parse_address
from common.protocol.errors import MisuseError
from common.protocol.sampling import Sampling

OPTIONS = AnswerOptions(STREAM, 24, "coupled", sampling=Sampling(temperature=1.0, seed=3))


@asynccontextmanager
async def talking(address, cache, policy=STREAM, draft="same", offline=Offline(limit=12)):  # noqa: B008
    access, choice = Access(parse_address(address)), DraftChoice(draft, dtype="float64", threads=1)
    async with client_for(access, choice, cache, download_bar) as client:
        talk = Talk(client, policy, offline)
        await talk.begin()
        try:
            yield talk
        finally:
            await talk.close()


def unseen(committed, provisional):
    """Watches nothing."""


async def ask(talk: Talk, question: str, options: AnswerOptions = OPTIONS):
    return await talk.ask(question, options, unseen, unheard)


async def judge(talk: Talk, at: int):
    return await talk.judge(at, OPTIONS, unseen, unheard)


@pytest.fixture
async def expected(server, cache):
    """What an unbroken line answers to two questions."""
    async with talking(server, cache) as talk:
        await ask(talk, "hello")
        await ask(talk, "and again")
        return talk.exchanges


async def test_what_was_drafted_offline_is_judged_in_turn_and_becomes_what_an_unbroken_line_gives(
    server, cache, expected
):
    async with talking(server, cache) as talk:
        talk.hold()
        for question in ("hello", "and again"):
            await ask(talk, question)
        assert [each.confirmed for each in talk.exchanges] == [False, False]
        assert talk.exchanges != expected
        talk.release()
        assert talk.unjudged == [0, 1]
        for at in talk.unjudged:
            await judge(talk, at)
        assert talk.unjudged == []
        assert talk.exchanges == expected


async def test_judging_goes_with_what_the_answer_was_asked_to_be(server, cache, expected):
    async with talking(server, cache) as talk:
        talk.hold()
        await ask(talk, "hello")
        talk.release()
        await talk.judge(0, replace(OPTIONS, max_new_tokens=3), unseen, unheard)
        assert talk.exchanges == expected[:1]


async def test_what_judged_answers_build_upon_is_not_judged_again(server, cache):
    async with talking(server, cache) as talk:
        talk.hold()
        await ask(talk, "hello")
        talk.release()
        await ask(talk, "and again")
        assert [each.confirmed for each in talk.exchanges] == [False, True]
        assert talk.unjudged == []


async def test_without_its_server_judging_changes_nothing(server, cache):
    async with talking(server, cache, offline=Offline(limit=12, patience=0.1)) as talk:
        talk.hold()
        await ask(talk, "hello")
        before = talk.exchanges
        await judge(talk, 0)
        assert (talk.exchanges, talk.unjudged) == (before, [0])


async def test_what_drafts_nothing_cannot_go_on_offline(server, cache):
    async with talking(server, cache, policy=CLOUD) as talk:
        with pytest.raises(MisuseError, match="the policy cloud drafts nothing"):
            talk.hold()


async def test_the_last_question_is_asked_again(server, cache, expected):
    async with talking(server, cache) as talk:
        with pytest.raises(MisuseError, match="nothing was asked"):
            await talk.ask_again(OPTIONS, unseen, unheard)
        await ask(talk, "hello")
        await ask(talk, "and again", replace(OPTIONS, sampling=Sampling(temperature=1.0, seed=4)))
        assert talk.exchanges[1].answer != expected[1].answer
        await talk.ask_again(OPTIONS, unseen, unheard)
        assert talk.exchanges == expected
        assert len(talk.stats) == 3


async def test_a_new_conversation_knows_nothing_of_the_last_and_stays_offline(server, cache, expected):
    async with talking(server, cache) as talk:
        await ask(talk, "what?")
        talk.hold()
        await talk.begin_anew()
        assert (talk.exchanges, talk.stats) == ((), [])
        await ask(talk, "hello")
        assert not talk.exchanges[0].confirmed
        talk.release()
        await judge(talk, 0)
        assert talk.exchanges == expected[:1]


async def test_a_question_that_does_not_fit_is_in_nobodys_way(server, cache, expected):
    async with talking(server, cache) as talk:
        await ask(talk, "hello")
        with pytest.raises(TooLongError):
            await ask(talk, "x " * 3000)
        assert talk.exchanges[1] == Exchange("x " * 3000)
        await ask(talk, "and again")
        assert talk.exchanges == expected


async def test_a_session_that_was_refused_does_not_end_the_conversation(server, cache, expected):
    async with talking(server, cache) as talk:
        await ask(talk, "hello")
        with suppress(RefusedError):  # or something was drafted before
            answer = await ask(talk, "and again", replace(OPTIONS, idle="sleepy"))
            assert "sleepy" in answer.failure
        assert talk.exchanges[:1] == expected[:1]
        await talk.ask_again(OPTIONS, unseen, unheard)
        assert talk.exchanges == expected


async def test_of_an_answer_that_is_abandoned_what_came_stays(server, cache, expected):
    async with talking(server, cache) as talk:
        first = asyncio.Event()
        asking = asyncio.create_task(talk.ask("hello", OPTIONS, lambda committed, _: first.set(), unheard))
        async with asyncio.timeout(20):
            await first.wait()
            asking.cancel()
            await asyncio.wait([asking])
        (exchange,) = talk.exchanges
        assert exchange.answer is None or expected[0].answer.startswith(exchange.answer)
        await talk.ask_again(OPTIONS, unseen, unheard)
        await ask(talk, "and again")
        assert talk.exchanges == expected
