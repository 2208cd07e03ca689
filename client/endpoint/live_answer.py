"""One answer as somebody sees it grow who is shown what is provisional, and told only what has changed since they
looked last.

Knows the service and text. It may not know HTTP.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from client.answering import AnswerOptions
from client.conversation import Answer
from client.endpoint.faults import FaultError, internal
from client.endpoint.monitor import Monitor
from client.endpoint.service import Service
from client.link.link_state import LinkState
from client.private.spans import Prompt
from client.terminal.render import AnswerView

if TYPE_CHECKING:
    from common.models.tokenizer import Tokenizer

_BETWEEN_LOOKS = 0.04
"""Seconds: the draft writes faster than anybody reads."""

Change = dict[str, Any]
"""`final` is text to append for good, `provisional` all that is shown behind it, `link` how the link is now; `private`
comes first, `end` and `error` come last."""


class Sheet:
    """Paper that remembers what changed."""

    def __init__(self) -> None:
        self.stirred = asyncio.Event()
        self._final = ""
        self._provisional: Callable[[], str] = str
        self._shown = ""
        self._link: LinkState | None = None

    def write(self, final: str, provisional: Callable[[], str]) -> None:
        self._final += final
        self.redraw(provisional)

    def redraw(self, provisional: Callable[[], str]) -> None:
        self._provisional = provisional
        self.stirred.set()

    def end(self, unconfirmed: str) -> None:
        self.redraw(lambda: unconfirmed)

    def link_changed(self, state: LinkState) -> None:
        self._link = state
        self.stirred.set()

    def take(self) -> Change:
        """What changed since the last time."""
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


class Showing:
    """Begins at once; `stop` ends it, on the server too."""

    def __init__(
        self, service: Service, tokenizer: "Tokenizer", monitor: Monitor, prompt: Prompt, options: AnswerOptions
    ):
        self._service = service
        self._monitor = monitor
        self._prompt = prompt
        self._options = options
        self._sheet = Sheet()
        self._view = AnswerView(tokenizer, self._sheet, options.stop)
        self._speed = monitor.begin()
        self.answering = asyncio.create_task(self._answer())
        self.answering.add_done_callback(lambda _: self._sheet.stirred.set())

    def stop(self) -> None:
        self.answering.cancel()

    async def changes(self) -> AsyncIterator[Change]:
        """As they come, to the end of the answer."""
        if self._prompt.private is not None:
            yield {"private": True}
        while not self.answering.done():
            await self._sheet.stirred.wait()
            self._sheet.stirred.clear()
            if change := self._sheet.take():
                yield change
            await asyncio.sleep(_BETWEEN_LOOKS)
        if not self.answering.cancelled():
            yield {**self._sheet.take(), **self.answering.result()}

    async def _answer(self) -> Change:
        unconfirmed: Sequence[int] = ()
        try:
            answer = await self._service.show(self._prompt, self._options, self._watch, self._sheet.link_changed)
            unconfirmed = answer.provisional
            return {"end": self._ending(answer)}
        except FaultError as error:
            return error.fault.body()
        except Exception as error:  # somebody waits for a sentence
            return internal(error).body()
        finally:
            self._speed.end()
            self._view.end(unconfirmed)

    def _watch(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        if committed:
            self._speed.committed(len(committed))
            self._monitor.heard(LinkState.ONLINE)  # nobody else commits
        self._view(committed, provisional)

    def _ending(self, answer: Answer) -> Change:
        return {
            "reason": answer.finish_reason,
            "unconfirmed": len(answer.provisional),
            "private": answer.private,
            "lossy": (self._options.lossy and not answer.private) or answer.kept > 0,
            "seed": self._options.seed,
            "failure": answer.failure,
            "note": answer.note,
            "stats": answer.stats.as_dict(),
        }
