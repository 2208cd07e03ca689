"""The output of a chat: answers on stdout, notes about them on stderr.

Knows consoles and how answers look; it may not know sessions or commands.
"""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from client.answer import OFFLINE, Answer
from client.answering import AnswerOptions
from client.terminal.render import (
    LiveRenderer,
    Renderer,
    kept_line,
    lossy_line,
    private_line,
    provisional_line,
    renderer_for,
    stats_line,
)
from common.protocol.messages import FinishReason

_ONCE_BACK, _ONCE_ONLINE = "once it is back", "after /online"


class Display:
    def __init__(self, out: Console, notes: Console):
        self._out = out
        self._notes = notes

    @property
    def is_terminal(self) -> bool:
        return self._out.is_terminal

    def note(self, text: str, dim: bool = False) -> None:
        self._notes.print(text, style="dim" if dim else None, markup=False)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        grid = Table.grid(padding=(0, 2), pad_edge=True)
        for row in rows:
            grid.add_row(*map(Text, row))  # no markup
        with self._notes.capture() as capture:
            self._notes.print(grid)
        for line in capture.get().splitlines():
            self.note(line.rstrip())

    def renderer(self) -> Renderer:
        """For one answer."""
        return renderer_for(self._out, time.monotonic)

    def render(self, renderer: Renderer, text: str) -> None:
        """Shows the Markdown of an answer that has ended on `renderer`, in place of the text, if both can be."""
        if isinstance(renderer, LiveRenderer):
            from client.chat.markdown import rendered

            lines = rendered(text, self._out)
            if lines is not None:
                renderer.replace(lines)

    def remark(self, answer: Answer, options: AnswerOptions, *, held: bool) -> None:
        """What a person must know of an answer; `held`: it was written offline by their own wish."""
        if self.is_terminal and answer.finish_reason == FinishReason.CANCELLED:
            self.note("stopped; what has come of the answer stays")
        if answer.private:
            self.note(private_line(len(answer.provisional), answer.stats), dim=True)
        else:
            if self.is_terminal and answer.tokens:
                self.note(stats_line(answer.stats, options.seed), dim=True)
            if options.lossy:
                self.note(lossy_line(options.rule), dim=True)
            if held and answer.provisional:
                self.note(held_line(len(answer.provisional)), dim=True)
            elif answer.provisional or (answer.tokens and answer.finish_reason == OFFLINE):
                self.note(f"{provisional_line(len(answer.provisional))}; {_ONCE_BACK}, /online asks it again", dim=True)
            elif answer.finish_reason == OFFLINE:
                # /online asks again what has an answer.
                why = (
                    f"the draft model wrote nothing; {_ONCE_ONLINE}" if held else f"{provisional_line(0)}; {_ONCE_BACK}"
                )
                self.note(f"{why}, /retry asks it again", dim=True)
        if answer.stats.unverified_tokens:
            self.note(kept_line(answer.stats.unverified_tokens))
        if answer.note:
            self.note(answer.note)


def held_line(tokens: int) -> str:
    """What a person must know of an answer without a server, by the user's choice."""
    held, them = ("1 token is", "it") if tokens == 1 else (f"{tokens} tokens are", "them")
    return f"{held} the draft model's own; /online has the server verify {them}"
