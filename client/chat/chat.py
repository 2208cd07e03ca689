"""What a person can do in a chat: ask, and each of the commands.

The shell around `ChatSession`, the settings and the display. It may not know how messages are typed.
"""

import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from client.answer import Answer, TokenListener
from client.answering import AnswerOptions
from client.chat import transcript_file
from client.chat.chat_session import ChatClient, ChatSession
from client.chat.display import Display
from client.chat.lines import Lines
from client.chat.settings import SETTINGS, ChatSettings, changed, find_setting, value_of
from client.chat.statistics import stats_table
from client.chat.transcript import SavedChat
from client.errors import BrokenOffError, TooLongError
from client.link.link_state import LinkState
from client.private.spans import BEGIN, END
from client.stops import before_stop
from client.terminal.interrupt import until_interrupted
from client.terminal.keys import Keys
from client.terminal.render import AnswerView
from client.text import answer_text
from common.counted import counted
from common.protocol.messages import FinishReason
from common.protocol.prefix import common_prefix

if TYPE_CHECKING:
    from client.link.reconnecting_stream import LinkListener

_MARKS = (f"{BEGIN}...{END}", "never leaves this machine, nor does what follows")
_PRIVATE = "this conversation is private: nothing from its first span on leaves this machine; /new begins another"

Result = TypeVar("Result")
Run = Callable[[Coroutine[Any, Any, Any]], Any]
AskModel = Callable[[TokenListener, "LinkListener"], Coroutine[Any, Any, Answer]]


class Chat:
    """`run` runs a coroutine to its end."""

    def __init__(
        self,
        client: ChatClient,
        chat_session: ChatSession,
        settings: ChatSettings,
        display: Display,
        lines: Lines,
        run: Run,
    ):
        self.is_over = False
        self._client = client
        self._chat_session = chat_session
        self._settings = self._public_settings = settings
        self._options = settings.answer.options()
        self._display = display
        self._run = run
        self._lines = lines
        self._own_files: set[Path] = set()

    @property
    def prompt(self) -> str:
        if self.is_private:
            return "private> "
        return "offline> " if self._chat_session.is_held else "> "

    @property
    def is_private(self) -> bool:
        return self._chat_session.is_private

    def ask(self, question: str) -> None:
        """Raises OutriderError if no answer comes, or not all of it."""
        options = self._options
        self._answer(
            lambda on_tokens, on_link_change: self._chat_session.ask(question, options, on_tokens, on_link_change),
            options,
        )

    def retry(self) -> None:
        options = replace(self._settings.answer, seed=None).options()
        self._answer(
            lambda on_tokens, on_link_change: self._chat_session.ask_again(options, on_tokens, on_link_change), options
        )

    def set(self, argument: str) -> None:
        name, _, text = argument.partition(" ")
        if not text:
            self._show_settings(name)
            return
        before = self._values
        settings = changed(self._settings, name, text.strip())
        self._apply(settings)
        if not self.is_private:
            self._public_settings = settings
        fresh = [(each, value) for each, value in self._values.items() if value != before[each]]
        self._display.table(fresh or [(name, "as it was")])

    def show_help(self, commands: Sequence[tuple[str, str]]) -> None:
        """`commands`: what can be typed, and what it does."""
        self._display.table(commands)
        self._display.note("")
        self._display.table([*self._lines.keys, _MARKS])

    def show_stats(self) -> None:
        rows = stats_table(self._chat_session.stats)
        if rows:
            self._display.table(rows)
        else:
            self._display.note("nothing was answered yet")

    def save(self, file: str) -> None:
        path = transcript_file.file_of(file)
        # A system prompt that was set while the conversation is private may quote private text.
        saved = SavedChat(self._chat_session.exchanges, self._public_settings.conversation.system)
        transcript_file.save(path, saved, self._client.description.model, self._own_files)
        self._own_files.add(path.resolve())
        self._display.note(f"saved to {path}{', private text included' if self.is_private else ''}")

    def load(self, file: str) -> None:
        path = transcript_file.file_of(file)
        saved = transcript_file.load(path)
        if saved.system:
            system = find_setting("system")
            self._apply(system.put(self._settings, saved.system))
            # Also in a private conversation: /save writes no system prompt that quotes private text.
            self._public_settings = system.put(self._public_settings, saved.system)
        self._chat_session.replace_transcript(saved.exchanges)
        self._own_files.add(path.resolve())
        count = len(saved.exchanges)
        more = "; its system prompt holds from now on" if saved.system else ""
        self._display.note(f"loaded {counted(count, 'question')} and what was answered{more}")
        if self.is_private:
            self._display.note(_PRIVATE)
        elif unverified := len(self._chat_session.unverified):
            last = "the last answer was" if unverified == 1 else f"the last {unverified} answers were"
            self._display.note(f"{last} never confirmed; /online has that verified")

    def go_offline(self) -> None:
        if self.is_private:
            self._display.note(_PRIVATE)
            return
        self._chat_session.hold()
        self._display.note("offline until /online: the draft model answers and nothing is verified")

    def go_online(self) -> None:
        if self.is_private:
            self._display.note(_PRIVATE)
            return
        self._chat_session.release()
        unverified = self._chat_session.unverified
        if unverified and self._settings.offline.options().accept_unverified:
            self._display.note("what was drafted is kept as it is, as on-reconnect says")
        elif not unverified:
            self._display.note("online from the next question on; nothing is left to verify")
        else:
            for at in unverified:
                if not self._verify(at):
                    self._display.note("what was drafted stays unverified; /online tries again")
                    break

    def new(self) -> None:
        was_private = self.is_private
        self._run(self._chat_session.begin_anew())
        self._own_files.clear()
        if was_private:
            self._lines.forget()
        line = "a new conversation"
        if self._settings != self._public_settings:
            # A stop string that goes to the server may quote private text.
            self._apply(self._public_settings)
            line += "; what was set while the last one was private is set back"
        self._display.note(line)

    def quit(self) -> None:
        self.is_over = True

    def _verify(self, at: int) -> bool:
        """Whether the target has verified exchange `at` now."""
        exchange = self._chat_session.exchanges[at]
        options = self._options if exchange.drafted is None else exchange.drafted.options
        self._display.note(f"verifying: {exchange.question}", dim=True)
        answer = self._answer(
            lambda on_tokens, on_link_change: self._chat_session.verify(at, self._options, on_tokens, on_link_change),
            options,
        )
        if not self._chat_session.exchanges[at].confirmed:
            return False
        if answer is not None and exchange.drafted is not None:
            drafted = exchange.drafted.tokens
            kept = common_prefix(drafted, answer.tokens)
            self._display.note(f"{kept} of {len(drafted)} drafted tokens were confirmed", dim=True)
        return True

    def _answer(self, asked: AskModel, options: AnswerOptions) -> Answer | None:
        """None if a person did not wait for its end. Raises OutriderError as `ask` does."""
        renderer = self._display.renderer()
        link = LinkState.OFFLINE if self._chat_session.is_held and not self.is_private else LinkState.ONLINE
        tokenizer, ends = self._client.tokenizer, self._client.description.end_tokens
        view = AnswerView(tokenizer, renderer, ends, options.stop, link)
        answer: Answer | None = self._run(self._shown(asked, view))
        if answer is None:
            self._display.note("the server did not say that it stopped; what has come stays")
            return None
        is_whole = answer.finish_reason in (FinishReason.END, FinishReason.LENGTH)
        if self._settings.screen.markdown and is_whole and not answer.provisional:
            self._display.render(renderer, before_stop(answer_text(tokenizer, ends, answer.tokens), options.stop))
        self._display.remark(answer, options, held=self._chat_session.is_held)
        if answer.failure:
            raise BrokenOffError(answer.failure)
        return answer

    async def _shown(self, asked: AskModel, view: AnswerView) -> Answer | None:
        answer = None
        with Keys(self._chat_session.retry_now) if sys.stdin.isatty() else nullcontext() as keys:

            def heard(state: LinkState) -> None:
                view.link_changed(state)
                if keys is not None:
                    keys.listen(state is not LinkState.ONLINE)

            try:
                answer = await until_interrupted(asked(view, heard), self._chat_session.cancel)
            except TooLongError:
                raise  # before anything was asked
            except BaseException:  # Ctrl-C too leaves the terminal as it should be
                view.end()
                raise
            view.end(() if answer is None else answer.provisional)
        return answer

    def _apply(self, settings: ChatSettings) -> None:
        """Raises MisuseError if these settings do not go together, or the server has not what they name."""
        is_seed_drawn = settings.answer.seed is None and self._settings.answer.seed is None
        seed = self._options.seed if is_seed_drawn else settings.answer.seed  # one that was drawn stays
        options, offline = replace(settings.answer, seed=seed).options(), settings.offline.options()
        self._client.require_rule(options.rule)
        self._client.require_idle(options.idle)
        self._settings, self._options, self._chat_session.offline = settings, options, offline
        self._chat_session.system = settings.conversation.system

    def _show_settings(self, name: str) -> None:
        shown = [find_setting(name)] if name else SETTINGS.values()
        self._display.table([(each.name, self._values[each.name], each.help) for each in shown])

    @property
    def _values(self) -> dict[str, str]:
        return {each.name: value_of(each, self._settings, self._options) for each in SETTINGS.values()}
