"""A chat session with a real server: questions in turn, repeated, offline, and offline answers judged afterwards."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tokenizers import AddedToken

from client.answering import AnswerOptions
from client.assembly import client_for
from client.chat.chat_session import ChatSession
from client.chat.transcript import Exchange
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import CLOUD, STREAM
from client.errors import ServerRefusedError, TooLongError
from client.link.offline import OfflineOptions
from client.link.reconnecting_stream import ignore_link_changes
from client.link.stream import Access
from client.terminal.progress import download_bar
from client.text import raw_tokens
from common.address import parse_address
from common.protocol.errors import MisuseError
from common.protocol.sampling import Sampling
from tests.client.demo.answers import answer as finished
from tests.published import IM_END, byte_level

OPTIONS = AnswerOptions(STREAM, 24, "coupled", sampling=Sampling(temperature=1.0, seed=3))


@asynccontextmanager
async def chat_session_with(address, cache, policy=STREAM, draft="same", offline=OfflineOptions(limit_tokens=12)):  # noqa: B008
    access, choice = Access(parse_address(address)), DraftChoice(draft, dtype="float64", threads=1)
    async with client_for(access, choice, cache, download_bar) as client:
        chat_session = ChatSession(client, policy, offline)
        await chat_session.begin()
        try:
            yield chat_session
        finally:
            await chat_session.close()


def unseen(committed, provisional):
    """Ignores all events."""


async def ask(chat_session: ChatSession, question: str, options: AnswerOptions = OPTIONS):
    return await chat_session.ask(question, options, unseen, ignore_link_changes)


async def verify(chat_session: ChatSession, at: int):
    return await chat_session.verify(at, OPTIONS, unseen, ignore_link_changes)


async def test_a_session_begins_on_the_connection_that_an_outage_of_the_one_before_has_left(server, cache):
    async with client_for(Access(parse_address(server)), DraftChoice(), cache, download_bar) as client:
        chat_session = ChatSession(client, CLOUD, OfflineOptions())
        await chat_session.begin()
        newest = await client.router_connection.renew(client.router_connection.current)
        await chat_session.begin()
        await ask(chat_session, "hello", AnswerOptions(CLOUD, 2))
        assert newest.streams == 1
        await chat_session.close()


@pytest.fixture
async def expected(server, cache):
    """The answers to two questions over an unbroken link."""
    async with chat_session_with(server, cache) as chat_session:
        await ask(chat_session, "hello")
        await ask(chat_session, "and again")
        return chat_session.exchanges


async def test_what_was_drafted_offline_is_judged_in_turn_and_becomes_what_an_unbroken_line_gives(
    server, cache, expected
):
    async with chat_session_with(server, cache) as chat_session:
        chat_session.hold()
        for question in ("hello", "and again"):
            await ask(chat_session, question)
        assert [each.confirmed for each in chat_session.exchanges] == [False, False]
        assert chat_session.exchanges != expected
        chat_session.release()
        assert chat_session.unverified == [0, 1]
        for at in chat_session.unverified:
            await verify(chat_session, at)
        assert chat_session.unverified == []
        assert chat_session.exchanges == expected


async def test_judging_goes_with_what_the_answer_was_asked_to_be(server, cache, expected):
    async with chat_session_with(server, cache) as chat_session:
        chat_session.hold()
        await ask(chat_session, "hello")
        chat_session.release()
        await chat_session.verify(0, replace(OPTIONS, max_new_tokens=3), unseen, ignore_link_changes)
        assert chat_session.exchanges == expected[:1]


async def test_judging_goes_by_the_system_prompt_of_then(server, cache, expected):
    async with chat_session_with(server, cache) as chat_session:
        chat_session.hold()
        await ask(chat_session, "hello")
        chat_session.system = "you are a fox"
        chat_session.release()
        await verify(chat_session, 0)
        assert chat_session.exchanges == expected[:1]


async def test_what_judged_answers_build_upon_is_not_judged_again(server, cache):
    async with chat_session_with(server, cache) as chat_session:
        chat_session.hold()
        await ask(chat_session, "hello")
        chat_session.release()
        await ask(chat_session, "and again")
        assert [each.confirmed for each in chat_session.exchanges] == [False, True]
        assert chat_session.unverified == []


async def test_without_its_server_judging_changes_nothing(server, cache):
    async with chat_session_with(server, cache, offline=OfflineOptions(limit_tokens=12, wait_s=0.1)) as chat_session:
        chat_session.hold()
        await ask(chat_session, "hello")
        before = chat_session.exchanges
        await verify(chat_session, 0)
        assert (chat_session.exchanges, chat_session.unverified) == (before, [0])


async def test_what_drafts_nothing_cannot_go_on_offline(server, cache):
    async with chat_session_with(server, cache, policy=CLOUD) as chat_session:
        with pytest.raises(MisuseError, match="the policy cloud drafts nothing"):
            chat_session.hold()


async def test_the_last_question_is_asked_again(server, cache, expected):
    async with chat_session_with(server, cache) as chat_session:
        with pytest.raises(MisuseError, match="nothing was asked"):
            await chat_session.ask_again(OPTIONS, unseen, ignore_link_changes)
        await ask(chat_session, "hello")
        await ask(chat_session, "and again", replace(OPTIONS, sampling=Sampling(temperature=1.0, seed=4)))
        assert chat_session.exchanges[1].answer != expected[1].answer
        await chat_session.ask_again(OPTIONS, unseen, ignore_link_changes)
        assert chat_session.exchanges == expected
        assert len(chat_session.stats) == 3


async def test_a_new_conversation_knows_nothing_of_the_last_and_stays_offline(server, cache, expected):
    async with chat_session_with(server, cache) as chat_session:
        await ask(chat_session, "what?")
        chat_session.hold()
        await chat_session.begin_anew()
        assert (chat_session.exchanges, chat_session.stats) == ((), [])
        await ask(chat_session, "hello")
        assert not chat_session.exchanges[0].confirmed
        chat_session.release()
        await verify(chat_session, 0)
        assert chat_session.exchanges == expected[:1]


async def test_a_question_that_does_not_fit_is_in_nobodys_way(server, cache, expected):
    async with chat_session_with(server, cache) as chat_session:
        await ask(chat_session, "hello")
        with pytest.raises(TooLongError):
            await ask(chat_session, "x " * 3000)
        assert chat_session.exchanges[1] == Exchange("x " * 3000)
        await ask(chat_session, "and again")
        assert chat_session.exchanges == expected


async def test_a_session_that_was_refused_does_not_end_the_conversation(server, cache, expected):
    async with chat_session_with(server, cache) as chat_session:
        await ask(chat_session, "hello")
        try:
            failure = (await ask(chat_session, "and again", replace(OPTIONS, idle="sleepy"))).failure
        except ServerRefusedError as error:  # before anything was drafted
            failure = str(error)
        assert "sleepy" in failure
        assert chat_session.exchanges[:1] == expected[:1]
        await chat_session.ask_again(OPTIONS, unseen, ignore_link_changes)
        assert chat_session.exchanges == expected


async def test_of_an_answer_that_is_abandoned_what_came_stays(server, cache, expected):
    async with chat_session_with(server, cache) as chat_session:
        first = asyncio.Event()

        def watch(committed, _):
            if committed:
                first.set()

        asking = asyncio.create_task(chat_session.ask("hello", OPTIONS, watch, ignore_link_changes))
        async with asyncio.timeout(20):
            await first.wait()
            asking.cancel()
            await asyncio.wait([asking])
        (exchange,) = chat_session.exchanges
        assert exchange.answer
        assert expected[0].answer.startswith(exchange.answer)
        await chat_session.ask_again(OPTIONS, unseen, ignore_link_changes)
        await ask(chat_session, "and again")
        assert chat_session.exchanges == expected


async def test_a_system_prompt_counts_for_what_is_asked_from_then_on(server, cache, expected):
    async with chat_session_with(server, cache) as chat_session:
        await ask(chat_session, "hello")
        assert chat_session.exchanges[0] == expected[0]
        chat_session.system = "you are a fox"
        await chat_session.ask_again(OPTIONS, unseen, ignore_link_changes)
        assert chat_session.exchanges[0].answer != expected[0].answer
        chat_session.system = ""
        await chat_session.ask_again(OPTIONS, unseen, ignore_link_changes)
        assert chat_session.exchanges[0] == expected[0]


async def test_an_end_token_that_is_not_special_goes_into_no_history():
    tokenizer = byte_level(AddedToken(IM_END))
    end = tokenizer.convert_tokens_to_ids(IM_END)
    given = finished((*raw_tokens(tokenizer, "I am well"), end))

    async def answered(*_):
        return given

    @asynccontextmanager
    async def opened(_):
        yield SimpleNamespace(answer=answered, is_private=False, is_sound=True)

    description = SimpleNamespace(end_tokens=(end,), context=400)
    client = SimpleNamespace(tokenizer=tokenizer, description=description, load_routers=lambda _: opened)
    chat_session = ChatSession(client, STREAM, OfflineOptions())
    await chat_session.begin()
    await ask(chat_session, f"what is {IM_END}?")
    assert [(each.question, each.answer) for each in chat_session.exchanges] == [(f"what is {IM_END}?", "I am well")]
