"""The answers to all choices of one request, made at once, as one sequence of events.

Knows the service; it may not know HTTP, nor in which shape answers are sent.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from client.endpoint.answer_on_conversation import Choice
from client.endpoint.answer_parsers.pieces import Piece
from client.endpoint.openai_responses import FinishedAnswer
from client.endpoint.service import Service

Event = tuple[int, Piece | FinishedAnswer]
"""The index of a choice, and what came of it: a piece, or at last the whole."""


class HeldAnswers:
    """Begins answers and holds their tasks until they have ended, on the server too."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, service: Service, choices: Sequence[Choice]) -> "Answers":
        answers = Answers(service, choices)
        for task in answers.tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answers


class Answers:
    """Begins all answers; `cancel` ends them, on the server too."""

    def __init__(self, service: Service, choices: Sequence[Choice]):
        self._events: asyncio.Queue[Event | asyncio.Task[None]] = asyncio.Queue()
        self.tasks = [asyncio.create_task(self._answer(service, index, choice)) for index, choice in enumerate(choices)]
        for task in self.tasks:
            task.add_done_callback(self._ended)

    def cancel(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def next(self) -> Event:
        """The next event. Raises FaultError, and whatever else an answer raises; then no more is to be expected."""
        while True:
            event = await self._events.get()
            if isinstance(event, tuple):
                return event
            event.result()

    async def all(self) -> list[FinishedAnswer]:
        """All answers, in the order of the choices. Raises as `next` does."""
        finished: dict[int, FinishedAnswer] = {}
        while len(finished) < len(self.tasks):
            index, event = await self.next()
            if isinstance(event, FinishedAnswer):
                finished[index] = event
        return [finished[index] for index in range(len(self.tasks))]

    async def _answer(self, service: Service, index: int, choice: Choice) -> None:
        answer = await service.answer(choice, partial(self._emit, index))
        self._events.put_nowait((index, answer))

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            task.exception()  # of several that fail only the first is asked for
        self._events.put_nowait(task)

    def _emit(self, index: int, piece: Piece) -> None:
        self._events.put_nowait((index, piece))
