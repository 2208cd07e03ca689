"""`outrider chat`: several turns in one session, on a terminal or through a pipe."""

import asyncio
import sys
import time
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path

from rich.console import Console

from client.answering import AnswerOptions
from client.assembly import Client, DraftChoice, client_for
from client.conversation import OFFLINE, Answer
from client.errors import BrokenOffError
from client.interrupt import until_interrupted
from client.keys import Keys
from client.link import Access
from client.link_state import LinkState
from client.offline import Offline
from client.private import Prompt, before_private
from client.progress import download_bar
from client.render import (
    AnswerView,
    kept_line,
    lossy_line,
    paper_for,
    private_line,
    provisional_line,
    stats_line,
    unreached_line,
)
from client.secluded import Confidant
from client.stops import before_stop
from client.text import Message, chat_prompt, chat_tokens, decode, valid_text
from common.protocol.errors import MisuseError

_QUIT = "/quit"


def chat(access: Access, choice: DraftChoice, cache: Path | None, options: AnswerOptions, offline: Offline) -> None:
    """Talks until /quit or the end of input.

    Ctrl-C stops an answer, and leaves only where the answer does not end: then KeyboardInterrupt is raised. Raises
    OutriderError where the session cannot go on.
    """
    console, notes = Console(), Console(stderr=True, highlight=False, soft_wrap=True)
    messages: list[Message] = []
    # Input is read between two runs of the loop, in the main thread, where Ctrl-C can interrupt it.
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            client, confidant = runner.run(_begin(stack, access, choice, cache, options, offline))
            if not client.was_reached:
                notes.print(unreached_line(str(access.address), client.manifest.draft), markup=False)
            if console.is_terminal:
                greeting = (
                    f"{client.description.model}, draft {client.manifest.draft}; {_QUIT} leaves; while the server is "
                    "out of reach, any key tries it at once"
                )
                notes.print(greeting, style="dim", markup=False)
            while (question := _ask(console, notes)) is not None:
                messages.append({"role": "user", "content": question})
                prompt = chat_prompt(client.tokenizer, messages)
                if len(prompt.tokens) >= client.description.context:
                    notes.print(_too_long(len(prompt.tokens), client.description.context))
                    messages.pop()
                    continue
                view = AnswerView(client.tokenizer, paper_for(console, time.monotonic), options.stop)
                answer = runner.run(_answer(confidant, prompt, options, view))
                if answer is None:
                    raise KeyboardInterrupt
                if console.is_terminal and not answer.private:
                    notes.print(stats_line(answer.stats, options.seed), style="dim", markup=False)
                if options.lossy and not answer.private:
                    notes.print(lossy_line(options.rule), style="dim", markup=False)
                if answer.private:
                    notes.print(private_line(len(answer.provisional), answer.stats), style="dim", markup=False)
                elif answer.provisional or answer.finish_reason == OFFLINE:
                    notes.print(provisional_line(len(answer.provisional)), style="dim", markup=False)
                if answer.kept:
                    notes.print(kept_line(answer.kept), markup=False)
                if answer.note:
                    notes.print(answer.note, markup=False)
                if answer.failure:
                    raise BrokenOffError(answer.failure)
                # What the target reads of its answer is what the person has read.
                shown = before_stop(decode(client.tokenizer, (*answer.tokens, *answer.provisional)), options.stop)
                messages.append({"role": "assistant", "content": shown})
        finally:
            runner.run(stack.aclose())


async def _begin(
    stack: AsyncExitStack,
    access: Access,
    choice: DraftChoice,
    cache: Path | None,
    options: AnswerOptions,
    offline: Offline,
) -> tuple[Client, Confidant]:
    client = await stack.enter_async_context(client_for(access, choice, cache, download_bar))
    client.require_rule(options.rule)
    client.require_idle(options.idle)
    chat_tokens(client.tokenizer, [{"role": "user", "content": ""}])  # fails now where there is no template
    drafter = client.load_drafter() if options.policy.drafts else None
    conversation = await stack.enter_async_context(client.converse(options.policy, drafter, options.pace, offline))
    return client, client.confidant(conversation)


def _ask(console: Console, notes: Console) -> str | None:
    """The next question; None to leave. Raises MisuseError for private spans that cannot be, where nobody can type
    them again."""
    while True:
        try:
            question = valid_text(console.input("[bold]> [/]" if console.is_terminal else "")).strip()
            before_private(question)
        except EOFError:
            return None
        except KeyboardInterrupt:
            notes.print(f"\n{_QUIT} leaves", style="dim")
            continue
        except UnicodeError:
            notes.print("that was not valid text; type it again")
            continue
        except MisuseError as error:
            if not console.is_terminal:
                raise
            notes.print(str(error), markup=False)
            continue
        if question == _QUIT:
            return None
        if question:
            return question


def _too_long(tokens: int, context: int) -> str:
    return f"with that the conversation has {tokens} tokens, but the target holds {context}; ask less, or start anew"


async def _answer(confidant: Confidant, prompt: Prompt, options: AnswerOptions, view: AnswerView) -> Answer | None:
    """None where the answer was abandoned."""
    answer = None
    with Keys(confidant.hurry) if sys.stdin.isatty() else nullcontext() as keys:

        def heard(state: LinkState) -> None:
            view.link_changed(state)
            if keys is not None:
                keys.listen(state is not LinkState.ONLINE)

        asked = confidant.answer(prompt, options.settings(), view, heard)
        try:
            answer = await until_interrupted(asked, confidant.cancel)
        finally:
            view.end(() if answer is None else answer.provisional)
    return answer
