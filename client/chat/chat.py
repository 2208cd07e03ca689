"""What a person can do in a chat: ask, and each of the commands.

The shell around `Talk`, the wishes and the display. It may not know how messages are typed.
"""

import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from client.answering import AnswerOptions
from client.assembly import Client
from client.chat import transcript_file
from client.chat.display import Display
from client.chat.lines import Lines
from client.chat.settings import SETTINGS, Wishes, changed, find_setting, value_of
from client.chat.statistics import stats_table
from client.chat.talk import Talk
from client.conversation import Answer, Watch
from client.errors import BrokenOffError, TooLongError
from client.link.link_state import LinkState
from client.link.reconnecting_stream import Told
from client.private.spans import BEGIN, END
from client.stops import before_stop
from client.terminal.interrupt import until_interrupted
from client.terminal.keys import Keys
from client.terminal.render import AnswerView
from client.text import answer_text
from common.protocol.messages import FinishReason
from common.protocol.prefix import common_prefix

_MARKS = (f"{BEGIN}...{END}", "never leaves this machine, nor does what follows")
_PRIVATE = "this conversation is private: nothing of it leaves this machine; /new begins another"

Result = TypeVar("Result")
Run = Callable[[Coroutine[Any, Any, Any]], Any]
Asked = Callable[[Watch, Told], Coroutine[Any, Any, Answer]]


class Chat:
    """`run` runs a coroutine to its end."""

    def __init__(self, client: Client, talk: Talk, wishes: Wishes, display: Display, lines: Lines, run: Run):
        self.is_over = False
        self._client = client
        self._talk = talk
        self._wishes = self._public_wishes = wishes
        self._options = wishes.answer.options()
        self._display = display
        self._run = run
        self._lines = lines
        self._own_files: set[Path] = set()

    @property
    def prompt(self) -> str:
        if self.is_private:
            return "private> "
        return "offline> " if self._talk.is_held else "> "

    @property
    def is_private(self) -> bool:
        return self._talk.is_private

    def ask(self, question: str) -> None:
        """Raises OutriderError where no answer comes, or not all of it."""
        options = self._options
        self._answer(lambda watch, told: self._talk.ask(question, options, watch, told), options)

    def retry(self) -> None:
        options = replace(self._wishes.answer, seed=None).options()
        self._answer(lambda watch, told: self._talk.ask_again(options, watch, told), options)

    def set(self, said: str) -> None:
        name, _, text = said.partition(" ")
        if not text:
            self._show_settings(name)
            return
        before = self._values
        wishes = changed(self._wishes, name, text.strip())
        self._wish(wishes)
        if not self.is_private:
            self._public_wishes = wishes
        fresh = [(each, value) for each, value in self._values.items() if value != before[each]]
        self._display.table(fresh or [(name, "as it was")])

    def show_help(self, commands: Sequence[tuple[str, str]]) -> None:
        """`commands`: what can be typed, and what it does."""
        self._display.table(commands)
        self._display.note("")
        self._display.table([*self._lines.keys, _MARKS])

    def show_stats(self) -> None:
        rows = stats_table(self._talk.stats)
        if rows:
            self._display.table(rows)
        else:
            self._display.note("nothing was answered yet")

    def save(self, file: str) -> None:
        path = Path(file).expanduser()
        transcript_file.save(path, self._talk.exchanges, self._client.description.model, self._own_files)
        self._own_files.add(path.resolve())
        self._display.note(f"saved to {path}{', private text included' if self.is_private else ''}")

    def load(self, file: str) -> None:
        path = Path(file).expanduser()
        self._talk.exchanges = transcript_file.load(path)
        self._own_files.add(path.resolve())
        count = len(self._talk.exchanges)
        self._display.note(f"loaded {count} question{'' if count == 1 else 's'} and what was answered")
        if self.is_private:
            self._display.note(_PRIVATE)

    def go_offline(self) -> None:
        if self.is_private:
            self._display.note(_PRIVATE)
            return
        self._talk.hold()
        self._display.note("the server is left alone until /online; the draft answers, and nobody confirms it")

    def go_online(self) -> None:
        if self.is_private:
            self._display.note(_PRIVATE)
            return
        self._talk.release()
        unjudged = self._talk.unjudged
        if unjudged and self._wishes.offline.options().keep:
            self._display.note("what was drafted is kept as it is, as on-reconnect says")
        elif not unjudged:
            self._display.note("the server is asked from the next question on; nothing waits to be judged")
        else:
            for at in unjudged:
                if not self._judge(at):
                    self._display.note("what was drafted stays unconfirmed; /online tries again")
                    break

    def new(self) -> None:
        was_private = self.is_private
        self._run(self._talk.begin_anew())
        self._own_files.clear()
        if was_private:
            self._lines.forget()
        said = "a new conversation"
        if self._wishes != self._public_wishes:
            # A stop string that goes to the server may quote private text.
            self._wish(self._public_wishes)
            said += "; what was set while the last one was private is set back"
        self._display.note(said)

    def quit(self) -> None:
        self.is_over = True

    def _judge(self, at: int) -> bool:
        """Whether the target has judged exchange `at`."""
        exchange = self._talk.exchanges[at]
        options = self._options if exchange.drafted is None else exchange.drafted.options
        self._display.note(f"judging: {exchange.question}", dim=True)
        answer = self._answer(lambda watch, told: self._talk.judge(at, self._options, watch, told), options)
        if not self._talk.exchanges[at].confirmed:
            return False
        if answer is not None and exchange.drafted is not None:
            drafted = exchange.drafted.tokens
            kept = common_prefix(drafted, answer.tokens)
            self._display.note(f"{kept} of {len(drafted)} drafted tokens were confirmed", dim=True)
        return True

    def _answer(self, asked: Asked, options: AnswerOptions) -> Answer | None:
        """None where a person did not wait for its end. Raises OutriderError as `ask` does."""
        paper = self._display.paper()
        link = LinkState.OFFLINE if self._talk.is_held and not self.is_private else LinkState.ONLINE
        view = AnswerView(self._client.tokenizer, paper, options.stop, link)
        answer: Answer | None = self._run(self._shown(asked, view))
        if answer is None:
            self._display.note("the server did not say that it stopped; what has come stays")
            return None
        is_whole = answer.finish_reason in (FinishReason.END, FinishReason.LENGTH)
        if self._wishes.screen.markdown and is_whole and not answer.provisional:
            self._display.render(paper, before_stop(answer_text(self._client.tokenizer, answer.tokens), options.stop))
        self._display.remark(answer, options, held=self._talk.is_held)
        if answer.failure:
            raise BrokenOffError(answer.failure)
        return answer

    async def _shown(self, asked: Asked, view: AnswerView) -> Answer | None:
        answer = None
        with Keys(self._talk.hurry) if sys.stdin.isatty() else nullcontext() as keys:

            def heard(state: LinkState) -> None:
                view.link_changed(state)
                if keys is not None:
                    keys.listen(state is not LinkState.ONLINE)

            try:
                answer = await until_interrupted(asked(view, heard), self._talk.cancel)
            except TooLongError:
                raise  # before anything was asked
            except BaseException:  # Ctrl-C too leaves the terminal as it should be
                view.end()
                raise
            view.end(() if answer is None else answer.provisional)
        return answer

    def _wish(self, wishes: Wishes) -> None:
        """Raises MisuseError where these wishes do not go together, or the server has not what they name."""
        is_seed_drawn = wishes.answer.seed is None and self._wishes.answer.seed is None
        seed = self._options.seed if is_seed_drawn else wishes.answer.seed  # one that was drawn stays
        options, offline = replace(wishes.answer, seed=seed).options(), wishes.offline.options()
        self._client.require_rule(options.rule)
        self._client.require_idle(options.idle)
        self._wishes, self._options, self._talk.offline = wishes, options, offline

    def _show_settings(self, name: str) -> None:
        shown = [find_setting(name)] if name else SETTINGS.values()
        self._display.table([(each.name, self._values[each.name], each.help) for each in shown])

    @property
    def _values(self) -> dict[str, str]:
        return {each.name: value_of(each, self._wishes, self._options) for each in SETTINGS.values()}
