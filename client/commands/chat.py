"""`outrider chat`: several turns in one session, on a terminal or through a pipe."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console

from client.assembly import Client, client_for
from client.chat.chat import Chat
from client.chat.chat_session import ChatSession
from client.chat.display import Display
from client.chat.lines import Lines, PlainLines
from client.chat.loop import converse
from client.chat.settings import ChatSettings
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from client.terminal.progress import download_bar
from client.terminal.render import unreached_line
from common.programs.console import PlainConsole


def chat(
    access: Access, choice: DraftChoice, cache: Path | None, settings: ChatSettings, loaded: Callable[[], None]
) -> bool:
    """Talks until /quit or the end of input; whether every question was answered to its end. `loaded` is called
    before anything is shown.

    Ctrl-C stops an answer; pressed twice at the prompt, it exits. Raises MisuseError for what
    cannot be asked, and OutriderError where the conversation cannot begin.
    """
    console, notes = PlainConsole(), PlainConsole(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
    display, is_typed = Display(console, notes), sys.stdin.isatty()
    # Input is read between two runs of the loop, in the main thread, where Ctrl-C can interrupt it.
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            client, chat_session = runner.run(_begin(stack, access, choice, cache, settings))
            loaded()
            if not client.was_reached:
                display.note(unreached_line(str(access.address), client.manifest.draft, client.hitch))
            if console.is_terminal:
                greeting = (
                    f"{client.description.model}, draft {client.manifest.draft}; /help says what can be typed; while "
                    "the server is out of reach, any key tries it at once"
                )
                display.note(greeting, dim=True)
            lines = _lines(console, runner)
            return converse(
                Chat(client, chat_session, settings, display, lines, runner.run), lines, display, typed=is_typed
            )
        finally:
            runner.run(stack.aclose())


async def _begin(
    stack: AsyncExitStack, access: Access, choice: DraftChoice, cache: Path | None, settings: ChatSettings
) -> tuple[Client, ChatSession]:
    options, offline = settings.answer.options(), settings.offline.options()
    client = await stack.enter_async_context(
        client_for(access, choice, cache, download_bar, drafts=options.policy.drafts)
    )
    client.require_rule(options.rule)
    client.require_idle(options.idle)
    chat_session = ChatSession(client, options.policy, offline)
    stack.push_async_callback(chat_session.close)
    await chat_session.begin()
    return client, chat_session


def _lines(console: Console, runner: asyncio.Runner) -> Lines:
    """An editor where the terminal can show one."""
    is_typed = sys.stdin.isatty() and sys.stdout.isatty()
    if not is_typed or console.is_dumb_terminal:
        return PlainLines(console if is_typed else None)
    from client.chat.editor import Editor

    return Editor(runner.run)
