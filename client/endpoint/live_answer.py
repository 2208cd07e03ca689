"""One answer for the page, which shows provisional text: a stream of what has changed since the last update.

Knows the service and text. It may not know HTTP.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from client.answer import Answer
from client.endpoint.answer_on_conversation import Choice
from client.endpoint.answer_parsers.thinking import BEGIN, END
from client.endpoint.draft_tree import CommitRecord, tree_as_rows
from client.endpoint.faults import FaultError, internal
from client.endpoint.monitor import Monitor
from client.endpoint.service import Service
from client.link.link_state import LinkState
from client.terminal.render import AnswerView
from client.text import decode
from common.clock import Clock
from common.protocol.client_session import ClientSession

if TYPE_CHECKING:
    from common.models.tokenizer import Tokenizer

_UPDATE_INTERVAL_S = 0.04
"""Between two updates: the draft writes faster than anybody reads."""

Change = dict[str, Any]
"""`final` is text to append for good, `provisional` all that is shown behind it, `link` how the link is now, `drafted`
the tree behind it and `commits` what has become final since; `private` comes first, `end` and `error` come last.
The first `final` text begins with the mark of thinking with which the prompt ends."""


class ChangeBuffer:
    """A renderer that collects changes instead of showing them."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._final = ""
        self._provisional: Callable[[], str] = str
        self._shown = ""
        self._link: LinkState | None = None

    def write(self, final: str, provisional: Callable[[], str]) -> None:
        self._final += final
        self.redraw(provisional)

    def redraw(self, provisional: Callable[[], str]) -> None:
        self._provisional = provisional
        self.changed.set()

    def end(self, unconfirmed: str) -> None:
        self.redraw(lambda: unconfirmed)

    def link_changed(self, state: LinkState) -> None:
        self._link = state
        self.changed.set()

    def take(self) -> Change:
        """The changes since the last call."""
        change: Change = {}
        provisional = self._provisional()
        if self._final:
            change["final"] = self._final
        if self._final or provisional != self._shown:
            change["provisional"] = provisional
        if self._link is not None:
            change["link"] = self._link.value
        self._final, self._shown, self._link = "", provisional, None
        return change


class DraftingWatch:
    """Collects what is told of drafting. Knows the session, once there is one."""

    def __init__(self, tokenizer: "Tokenizer", clock: Clock):
        self._clock = clock
        self._began = clock()
        self._session: ClientSession | None = None
        self._commits: list[CommitRecord] = []
        self._rows: list[list[Any]] = []
        # In front of a token stands the same one, because some tokenizers drop the space before the first of a text.
        self._text_of = cache(lambda token: decode(tokenizer, (token, token), context=1))

    def begin(self, session: ClientSession) -> None:
        self._session = session

    def committed(self, tokens: Sequence[int]) -> None:
        carried = 0 if self._session is None else len(self._session.carried)
        self._commits.append(CommitRecord(self._clock() - self._began, tuple(tokens), carried))

    def end(self) -> None:
        """From now on the session may be another answer's."""
        self._session = None

    def take(self) -> Change:
        """The changes since the last call."""
        change: Change = {}
        nodes = () if self._session is None else self._session.drafted
        rows = tree_as_rows(nodes, self._text_of)
        if rows != self._rows:
            change["drafted"] = self._rows = rows
        if self._commits:
            change["commits"] = [commit.as_dict(self._text_of) for commit in self._commits]
            self._commits = []
        return change


class LiveAnswer:
    """Begins at once; `stop` ends it, on the server too."""

    def __init__(self, service: Service, tokenizer: "Tokenizer", monitor: Monitor, choice: Choice):
        self._service = service
        self._monitor = monitor
        self._prompt = choice.prompt
        self._options = choice.options
        self._opening = choice.opening
        self._buffer = ChangeBuffer()
        # Of other marks no parser takes the answer apart here, and they would come back as text of the history.
        shown = {token: mark for token, mark in choice.form.shown.items() if mark in (BEGIN, END)}
        self._view = AnswerView(tokenizer, self._buffer, service.end_tokens, choice.options.stop, shown=shown)
        self._drafting = DraftingWatch(tokenizer, time.perf_counter)
        self._speed = monitor.begin()
        self.answering = asyncio.create_task(self._answer())
        self.answering.add_done_callback(lambda _: self._buffer.changed.set())

    def stop(self) -> None:
        self.answering.cancel()

    async def changes(self) -> AsyncIterator[Change]:
        """Updates as they come, up to the end of the answer."""
        if self._prompt.private is not None:
            yield {"private": True}
        while not self.answering.done():
            await self._buffer.changed.wait()
            self._buffer.changed.clear()
            if change := self._take():
                yield change
            await asyncio.sleep(_UPDATE_INTERVAL_S)
        if not self.answering.cancelled():
            yield {**self._take(), **self.answering.result()}

    def _take(self) -> Change:
        change = {**self._buffer.take(), **self._drafting.take()}
        # Not before there is text: what an answer replaces goes when something of it is there.
        if self._opening and "provisional" in change:
            change["final"] = f"{self._opening}\n{change.get('final', '')}"
            self._opening = ""
        return change

    async def _answer(self) -> Change:
        unconfirmed: Sequence[int] = ()
        try:
            answer = await self._service.show(
                self._prompt, self._options, self._drafting.begin, self._tokens_came, self._buffer.link_changed
            )
            unconfirmed = answer.provisional
            return {"end": self._ending(answer)}
        except FaultError as error:
            return error.fault.body()
        except Exception as error:  # the page must be told what failed
            return internal(error).body()
        finally:
            self._speed.end()
            self._drafting.end()
            self._view.end(unconfirmed)

    def _tokens_came(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        if committed:
            self._speed.committed(len(committed))
            self._drafting.committed(committed)
            self._monitor.link_changed(LinkState.ONLINE)  # only a server commits
        self._view(committed, provisional)

    def _ending(self, answer: Answer) -> Change:
        return {
            "reason": answer.finish_reason,
            "unconfirmed": len(answer.provisional),
            "private": answer.private,
            "lossy": answer.is_lossy(by_rule=self._options.lossy),
            "seed": self._options.seed,
            "failure": answer.failure,
            "note": answer.note,
            "stats": answer.stats.as_dict(),
        }
