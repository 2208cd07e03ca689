"""`outrider chat`: several turns in one session, on a terminal or through a pipe."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from client.chat.chat import Chat
from client.chat.chat_session import ChatClient, ChatSession
from client.chat.display import Display
from client.chat.lines import Lines, PlainLines
from client.chat.loop import converse
from client.chat.settings import ChatSettings
from client.local_serve.chat_client import Load, SocketChatClient, chat_client_of_serve
from client.local_serve.messages import Declined
from client.local_serve.request import RequestOptions, loaded_here_line
from client.options.connection import Credentials
from client.terminal.render import unreached_line
from client.text import check_system
from common.address import parse_destinations, written
from common.programs.console import PlainConsole

if TYPE_CHECKING:
    from client.assembly import Client


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a chat talks with; `choice` is what a drafter is loaded with. A running `outrider serve` is asked if
    `via_serve`."""

    server: str
    credentials: Credentials
    choice: Mapping[str, Any]
    cache: Path | None
    settings: ChatSettings
    via_serve: bool


def chat(request: ChatRequest, loaded: Callable[[], None]) -> bool:
    """Talks until /quit or the end of input; whether every question was answered to its end. `loaded` is called
    before anything is shown.

    Ctrl-C stops an answer; pressed twice at the prompt, it exits. Raises MisuseError for what
    cannot be asked, and OutriderError if the conversation cannot begin.
    """
    # Input is read between two runs of the loop, in the main thread, where Ctrl-C can interrupt it.
    with asyncio.Runner() as runner:
        stack, clients = AsyncExitStack(), AsyncExitStack()
        stack.push_async_callback(clients.aclose)

        async def load() -> "Client":
            return await clients.enter_async_context(_client_here(request))

        try:
            asked = _client_of_serve(stack, request, load) if request.via_serve else Declined("")
            client = runner.run(load()) if isinstance(asked, Declined) else asked
            chat_session = runner.run(_begin(stack, client, request.settings))
            loaded()
            if isinstance(asked, Declined) and asked.reason and request.settings.answer.options().policy.drafts:
                sys.stderr.write(loaded_here_line(asked) + "\n")
            return _talk(client, chat_session, request, runner)
        finally:
            runner.run(stack.aclose())


def _client_of_serve(stack: AsyncExitStack, request: ChatRequest, load: Load) -> SocketChatClient | Declined:
    settings = request.settings
    options = RequestOptions(request.credentials, settings.answer, settings.offline, request.choice)
    client = chat_client_of_serve(request.cache, request.server, options, load)
    if isinstance(client, SocketChatClient):
        stack.callback(client.close)
    return client


def _client_here(request: ChatRequest) -> "AbstractAsyncContextManager[Client]":
    from client.assembly import client_for
    from client.drafting.draft_loader import DraftChoice
    from client.terminal.progress import download_bar

    access, choice = request.credentials.access_to(request.server), DraftChoice(**request.choice)
    drafts = request.settings.answer.options().policy.drafts
    return client_for(access, choice, request.cache, download_bar, drafts=drafts)


async def _begin(stack: AsyncExitStack, client: ChatClient, settings: ChatSettings) -> ChatSession:
    options, offline = settings.answer.options(), settings.offline.options()
    client.require_rule(options.rule)
    client.require_idle(options.idle)
    check_system(settings.conversation.system)
    chat_session = ChatSession(client, options.policy, offline, settings.conversation.system)
    stack.push_async_callback(chat_session.close)
    await chat_session.begin()
    return chat_session


def _talk(
    client: "Client | SocketChatClient", chat_session: ChatSession, request: ChatRequest, runner: asyncio.Runner
) -> bool:
    console, notes = PlainConsole(), PlainConsole(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
    display = Display(console, notes)
    if not client.was_reached:
        draft = client.draft if request.settings.answer.options().policy.drafts else None
        display.note(unreached_line(written(parse_destinations(request.server)), draft, client.hung_up_by))
    if console.is_terminal:
        greeting = (
            f"{client.description.model}, draft {client.draft}; /help says what can be typed; while "
            "the server is out of reach, any key tries it at once"
        )
        display.note(greeting, dim=True)
    lines = _lines(console, runner)
    talking = Chat(client, chat_session, request.settings, display, lines, runner.run)
    return converse(talking, lines, display, typed=sys.stdin.isatty())


def _lines(console: Console, runner: asyncio.Runner) -> Lines:
    """An editor if the terminal can show one."""
    is_typed = sys.stdin.isatty() and sys.stdout.isatty()
    if not is_typed or console.is_dumb_terminal:
        return PlainLines(console if is_typed else None)
    from client.chat.editor import Editor

    return Editor(runner.run)
