"""client.local_serve.chat_server: the end of a chat that holds its conversation."""

import asyncio
import socket
from dataclasses import asdict, replace

import pytest

from client.answer import TokenListener
from client.link.offline import OfflineOptions
from client.link.reconnecting_stream import ignore_link_changes
from client.local_serve import messages
from client.local_serve.chat_server import ChatServer
from client.local_serve.messages import AsyncConnection, ConnectionLostError
from common.protocol.errors import MisuseError
from common.protocol.messages import Settings

PROMPT = messages.ChatPrompt((1, 2), None, asdict(Settings(4)), (), asdict(OfflineOptions()), False, False)


class Router:
    """Raises `error` at each prompt; without one, an answer ends when it is cancelled."""

    is_private = False
    is_sound = True

    def __init__(self, error: Exception | None = None):
        self.offline = OfflineOptions()
        self._error = error
        self._cancelled = asyncio.Event()

    async def answer(self, *_: object) -> None:
        self._cancelled.clear()  # as the real one: what was cancelled before has nothing to do with this answer
        if self._error is None:
            await self._cancelled.wait()
            raise MisuseError("cancelled")
        raise self._error

    def cancel(self) -> None:
        self._cancelled.set()


async def served(router: Router) -> tuple[AsyncConnection, asyncio.Task[None]]:
    """The chat's end of a connection, and the task that serves the other one."""
    ends = [AsyncConnection(*await asyncio.open_unix_connection(sock=each)) for each in socket.socketpair()]
    server = ChatServer(router, ends[1], ignore_link_changes)  # type: ignore[arg-type]
    return ends[0], asyncio.create_task(server.serve())


async def test_a_cancel_that_comes_with_its_prompt_cancels_it() -> None:
    chat, serving = await served(Router())
    chat.send(PROMPT)
    chat.send(messages.ChatCancel())
    end = await asyncio.wait_for(chat.receive(), 20)
    assert isinstance(end, messages.ChatEnd)
    assert end.failed == {"sentence": "cancelled", "is_misuse": True}
    chat.close()
    await serving


async def test_the_last_of_what_is_drafted_in_an_outage_is_sent() -> None:
    class Drafting(Router):
        async def answer(self, prompt: object, settings: object, on_tokens: TokenListener, *_: object) -> None:
            for count in range(1, 4):
                on_tokens((), tuple(range(count)))
            await super().answer()

    chat, serving = await served(Drafting())
    chat.send(replace(PROMPT, is_live=True))
    sent: list[messages.Message] = [await chat.receive(), await chat.receive()]
    assert sent == [messages.ChatTokens([], [0]), messages.ChatTokens([], [0, 1, 2])]
    chat.close()
    await serving


async def test_a_fault_of_ours_ends_the_connection_and_is_raised() -> None:
    chat, serving = await served(Router(ValueError("a fault")))
    chat.send(PROMPT)
    with pytest.raises(ConnectionLostError):
        await asyncio.wait_for(chat.receive(), 20)
    chat.close()
    with pytest.raises(ValueError, match="a fault"):
        await serving
