"""client.local_serve.listener in this process: how many questions it admits, and what it sends."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from client.local_serve import listener
from client.local_serve.listener import Listener
from client.local_serve.messages import Accepted, AnswerFinished, AsyncConnection, Declined, Redraw
from client.local_serve.request import RequestOptions
from client.local_serve.running import find_running
from client.options.answers import AnswerFlags
from client.options.connection import Credentials
from client.options.outages import OfflineFlags
from client.private.spans import SplitPrompt
from client.text import Question
from common.address import parse_address
from common.protocol.errors import MisuseError

ADDRESS = "127.0.0.1:7070"
CHOICE = {"draft": None, "device": "cpu", "dtype": "float32", "threads": 1, "layers": None, "state": None}


@pytest.fixture
async def opened(tmp_path) -> AsyncIterator[Listener]:
    """With one place, on a client that drafts nothing."""
    client = SimpleNamespace(
        description=SimpleNamespace(model="model", served=("model",)),
        require_rule=lambda _: None,
        require_idle=lambda _: None,
    )
    parts = SimpleNamespace(client=client, make_drafter=None, choice=DraftChoice(**CHOICE))
    listener = Listener([parts], Access(parse_address(ADDRESS)), tmp_path, slots=1)  # type: ignore[arg-type]
    await listener.open()
    yield listener
    await listener.close()


async def connection(cache: Path, prompt: str, choice: Mapping[str, Any] = CHOICE) -> AsyncConnection:
    """On which a question has been sent."""
    (running,) = find_running(cache)
    connection = AsyncConnection(*await asyncio.open_unix_connection(running.socket))
    options = RequestOptions(Credentials(), AnswerFlags(policy="cloud"), OfflineFlags(), choice)
    connection.send(options.request(ADDRESS, Question(prompt)))
    return connection


async def test_a_place_is_reserved_before_the_question_is_tokenised(opened, tmp_path, monkeypatch) -> None:
    may_go_on, loop = threading.Event(), asyncio.get_running_loop()
    tokenising = {"first": asyncio.Event(), "second": asyncio.Event(), "third": asyncio.Event()}

    def tokenise(client, question) -> SplitPrompt:
        loop.call_soon_threadsafe(tokenising[question.prompt].set)
        assert may_go_on.wait(60)
        return SplitPrompt((1,))

    async def answer_none(loaded, question, connection) -> None:
        connection.send(AnswerFinished({}))

    monkeypatch.setattr(listener, "prompt_of", tokenise)
    monkeypatch.setattr(listener, "_answer", answer_none)
    first = await connection(tmp_path, "first")
    await asyncio.wait_for(tokenising["first"].wait(), 60)
    second = await connection(tmp_path, "second")
    tasks = asking, admitted = [asyncio.create_task(each) for each in (second.receive(), tokenising["second"].wait())]
    await asyncio.wait(tasks, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    may_go_on.set()
    assert not admitted.done(), "both questions are admitted to one place"
    admitted.cancel()
    assert await asking == Declined("the running `outrider serve` is full")
    assert [await first.receive(), await first.receive()] == [Accepted(), AnswerFinished({})]
    third = await connection(tmp_path, "third")
    assert await third.receive() == Accepted(), "the place is free again"
    for each in (first, second, third):
        each.close()


async def test_a_question_that_cannot_be_tokenised_leaves_its_place(opened, tmp_path, monkeypatch) -> None:
    def refuse(client, question) -> SplitPrompt:
        raise MisuseError("it is too long")

    monkeypatch.setattr(listener, "prompt_of", refuse)
    asked = await connection(tmp_path, "first")
    assert await asked.receive() == Declined("")
    asked.close()
    monkeypatch.setattr(listener, "prompt_of", lambda *_, **__: SplitPrompt((1,)))
    again = await connection(tmp_path, "again")
    assert await again.receive() == Accepted()
    again.close()


async def test_a_line_does_not_stand_within_an_answer_that_is_not_shown_either() -> None:
    ends = [AsyncConnection(*await asyncio.open_unix_connection(sock=each)) for each in socket.socketpair()]
    renderer = listener._SocketRenderer(ends[0], "unreached", is_live=False, is_shown=False)
    renderer.write("text", lambda: "")
    renderer.show_unreached()
    ends[0].send(Accepted())
    assert await ends[1].receive() == Accepted()
    for each in ends:
        each.close()


async def test_the_last_of_what_is_drafted_in_an_outage_is_sent() -> None:
    ends = [AsyncConnection(*await asyncio.open_unix_connection(sock=each)) for each in socket.socketpair()]
    renderer = listener._SocketRenderer(ends[0], "unreached", is_live=True, is_shown=True)
    for drafted in ("a", "ab", "abc"):
        renderer.write("", lambda drafted=drafted: drafted)
    assert [await ends[1].receive(), await ends[1].receive()] == [Redraw("a"), Redraw("abc")]
    for each in ends:
        each.close()


async def test_a_model_that_is_not_loaded_is_left_to_the_one_who_asks(opened, tmp_path) -> None:
    asked = await connection(tmp_path, "first", {**CHOICE, "model": "other"})
    assert await asked.receive() == Declined("the running `outrider serve` has loaded 'model', not 'other'")
    asked.close()


async def test_a_connection_that_stands_at_the_end_is_no_error(opened, tmp_path):
    """A connection's task is cancelled then, of which Python 3.11 tells the event loop if it made that task."""
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    (running,) = find_running(tmp_path)
    reader, writer = await asyncio.open_unix_connection(running.socket)
    while not opened._tasks:
        await asyncio.sleep(0)
    await opened.close()
    assert await reader.read() == b""
    writer.close()
    assert told == []
