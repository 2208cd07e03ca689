"""Shows an answer while it grows: live on a terminal, plain elsewhere, or not at all.

Knows text and the console. What was committed is printed for good; only provisional text is ever redrawn.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from rich.console import Console

from client.link.link_state import LinkState
from client.provisional_pace import ProvisionalPace
from client.stats import Stats
from client.stops import TextBeforeStop
from client.terminal.screen import Screen
from client.text import IncrementalText
from common.clock import Clock
from common.counted import counted
from common.protocol.plain import printable

if TYPE_CHECKING:
    from common.models.tokenizer import Tokenizer

_MARKS = {LinkState.SUSPECT: " [?]", LinkState.OFFLINE: " [offline]", LinkState.RESUMING: " [offline]"}
"""The state of the link, as shown behind provisional text."""

_REDRAW_INTERVAL_S = 0.05  # of provisional text alone


class Renderer(Protocol):
    """Writes an answer's text somewhere. `provisional` is only computed if it is shown."""

    def write(self, final: str, provisional: Callable[[], str]) -> None: ...

    def redraw(self, provisional: Callable[[], str]) -> None:
        """The provisional text has changed, and is to be shown at once."""

    def end(self, unconfirmed: str) -> None:
        """No more will come; `unconfirmed` is drafted text that the target will not verify."""


class SilentRenderer:
    """Shows nothing, for output that a program reads."""

    def write(self, final: str, provisional: Callable[[], str]) -> None:
        pass

    def redraw(self, provisional: Callable[[], str]) -> None:
        pass

    def end(self, unconfirmed: str) -> None:
        pass


class PlainRenderer:
    """Final text alone, for pipes, files and dumb terminals; control characters are left out on a terminal."""

    def __init__(self, console: Console):
        self._file = console.file
        self._has_begun = False
        self._shown: Callable[[str], str] = printable if console.is_terminal else str

    def write(self, final: str, provisional: Callable[[], str]) -> None:
        if final:
            self._has_begun = True
            self._file.write(self._shown(final))
            self._file.flush()

    def redraw(self, provisional: Callable[[], str]) -> None:
        pass

    def end(self, unconfirmed: str) -> None:
        if self._has_begun or unconfirmed:
            self._file.write(self._shown(unconfirmed) + "\n")
            self._file.flush()


class LiveRenderer:
    """Final text, and behind it provisional text in dim letters."""

    def __init__(self, console: Console, clock: Clock):
        self._console = console
        self._screen = Screen()
        self._pace = ProvisionalPace(_REDRAW_INTERVAL_S, clock)

    def write(self, final: str, provisional: Callable[[], str]) -> None:
        if not final:
            self._pace.show(lambda: self._update("", provisional()))
            return
        self._pace.begin_anew()
        self._update(final, provisional())

    def redraw(self, provisional: Callable[[], str]) -> None:
        self._pace.begin_anew()
        self._update("", provisional())

    def end(self, unconfirmed: str) -> None:
        self._pace.drop()
        self._console.file.write(self._screen.ended(unconfirmed, self._console.size.width) + "\n")
        self._console.file.flush()

    def replace(self, rendered: str) -> None:
        """Puts whole lines in place of a finished answer, if all of it is still on the screen."""
        width, height = self._console.size
        self._console.file.write(self._screen.replaced(rendered, width, height))
        self._console.file.flush()

    def _update(self, final: str, provisional: str) -> None:
        width, height = self._console.size  # asked each time, because a person may resize a terminal at any time
        characters = self._screen.update(final, provisional, width, max(0, height - 2))
        if characters:
            self._console.file.write(characters)
            self._console.file.flush()


def renderer_for(console: Console, clock: Clock) -> Renderer:
    live = console.is_terminal and not console.is_dumb_terminal
    return LiveRenderer(console, clock) if live else PlainRenderer(console)


class AnswerView:
    """A conversation's token listener: turns tokens into text on a renderer, up to a stop string."""

    def __init__(
        self,
        tokenizer: "Tokenizer",
        renderer: Renderer,
        ends: Collection[int],
        stops: Sequence[str] = (),
        link: LinkState = LinkState.ONLINE,
        before: Sequence[int] = (),
        shown: Mapping[int, str] | None = None,
    ):
        """`ends` are the target's end tokens, `before` those of the prompt that `before_answer` chooses, `shown`
        special tokens that are text, each with its own."""
        self._text = IncrementalText(tokenizer, ends, shown, before)
        self._before_stop = TextBeforeStop(stops)
        self._renderer = renderer

        self._link = link
        self._provisional: tuple[int, ...] = ()

    def __call__(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        self._provisional = tuple(provisional)
        self._renderer.write(self._before_stop.append(self._text.commit(committed)), self._preview)

    def link_changed(self, state: LinkState) -> None:
        self._link = state
        self._renderer.redraw(self._preview)

    def end(self, unconfirmed: Sequence[int] = ()) -> None:
        """No more will come, whatever the reason; `unconfirmed` tokens stay where they were shown."""
        if unconfirmed:
            self._renderer.end(self._before_stop.preview(self._text.preview(unconfirmed)))
        else:
            self._renderer.write(self._before_stop.append(self._text.flush()) + self._before_stop.flush(), str)
            self._renderer.end("")

    def _preview(self) -> str:
        return self._before_stop.preview(self._text.preview(self._provisional)) + _MARKS.get(self._link, "")


def stats_line(stats: Stats, seed: int | None) -> str:
    """An answer's stats in one line for a person, with the seed of what was drawn."""
    drawn = "" if seed is None else f", seed {seed}"
    round_trip = f"round trip {stats.rtt_ms:.0f} ms, " if stats.rtt_ms else ""
    return (
        f"{counted(stats.tokens, 'token')} in {stats.seconds:.1f} s, {stats.tokens_per_second:.1f} tokens/s, "
        f"first after {stats.ttft_seconds * 1000:.0f} ms, accept length {stats.accept_length:.2f}, "
        f"{round_trip}{stats.bytes_up / 1000:.1f} kB up, {stats.bytes_down / 1000:.1f} kB down, "
        f"draft {stats.draft}, rule {stats.rule}{drawn}"
    )


def lossy_line(rule: str) -> str:
    """What a person must know of an answer by a lossy rule."""
    return f"{rule}: lossy, not the target's own distribution"


def unreached_line(address: str, draft: str | None, hung_up_by: str) -> str:
    """What a person must know who begins without the server. `draft`: the model that drafts, None where none does;
    `hung_up_by`: why the server was not reached, if something is there."""
    why = hung_up_by or f"the server at {address} cannot be reached"
    return f"{why}; " + (f"the draft model '{draft}' writes alone until it answers" if draft else "it is tried again")


def waiting_line(seconds: float) -> str:
    """What a person must know who sees nothing while the server is waited for."""
    limit = f" up to {max(1, round(seconds))} s" if seconds < math.inf else ""
    return f"waiting{limit} for the server"


def private_line(tokens: int, stats: Stats) -> str:
    """What a person must know of an answer to a private prompt."""
    return (
        f"the answer is the draft model's own, because the prompt is private: {counted(tokens, 'token')} by "
        f"{stats.draft} alone in {stats.seconds:.1f} s; for the text before the first private span "
        f"{stats.bytes_up / 1000:.1f} kB were sent and {stats.bytes_down / 1000:.1f} kB received"
    )


def provisional_line(tokens: int) -> str:
    """What a person must know of an answer that ended without its server, and of text that was never verified."""
    if not tokens:
        return "the answer is not whole: the server was out of reach"
    last = "the last token is" if tokens == 1 else f"the last {tokens} tokens are"
    return f"{last} the draft model's own and never confirmed: the server was out of reach"


def kept_line(tokens: int) -> str:
    """What a person must know of text that was kept without verification."""
    kept, them = ("1 token is", "it") if tokens == 1 else (f"{tokens} tokens are", "them")
    return f"{kept} kept as the draft model wrote {them}: lossy, not the target's own"
