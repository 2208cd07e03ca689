"""`outrider serve`'s end of a chat: one conversation, for as long as the other end of the socket stands.

The other end keeps what was said and turns it into tokens. Private tokens come as such and go through a
`PrivacyRouter`, as they would there. It may not know text.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from client.link.reconnecting_stream import LinkListener
from client.private.router import PrivacyRouter
from client.private.spans import SplitPrompt
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.messages import Settings
from common.protocol.sampling import Sampling

PROVISIONAL_SECONDS = 0.04  # between two drafts
_MOST_UNREAD_BYTES = 1 << 20  # beyond which who does not read is told of no more drafts

Event = dict[str, Any]


class Events:
    """A line each."""

    def __init__(self, writer: asyncio.StreamWriter):
        self._writer = writer

    @property
    def is_read(self) -> bool:
        """Whether whoever asked keeps up."""
        return self._writer.transport.get_write_buffer_size() < _MOST_UNREAD_BYTES

    def say(self, event: Event) -> None:
        with suppress(OSError):
            self._writer.write(json.dumps(event).encode() + b"\n")


class ServedConversation:
    """`told` hears how the link changes, but for what a person has wished."""

    def __init__(self, router: PrivacyRouter, events: Events, told: LinkListener):
        self._router = router
        self._events = events
        self._told = told
        self._is_held = False
        self._answering: asyncio.Task[None] | None = None

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Until the other end is gone, which ends an answer. Raises ValueError where it speaks something else."""
        try:
            while line := await reader.readline():
                self._hear(json.loads(line))
        finally:
            if self._answering is not None:
                self._answering.cancel()
                await asyncio.gather(self._answering, return_exceptions=True)

    def _hear(self, message: Event) -> None:
        match message:
            case {"ask": asked} if self._answering is None or self._answering.done():
                self._answering = asyncio.create_task(self._answer(asked))
            case {"cancel": _}:
                self._router.cancel()
            case {"retry": _}:
                self._router.retry_now()
            case _:
                raise ValueError("no message of a chat")

    async def _answer(self, asked: Event) -> None:
        try:
            answer = await self._ask(asked)
        except OutriderError as error:
            self._end({"failed": str(error), "misuse": isinstance(error, MisuseError)})
        else:
            self._end({"answer": asdict(answer)})

    async def _ask(self, asked: Event) -> Any:
        router, is_held, drawn = self._router, asked["held"], time.monotonic() - PROVISIONAL_SECONDS
        router.offline = OfflineOptions(**asked["offline"])
        if is_held:
            router.hold()
        elif self._is_held:
            router.release()
        self._is_held = is_held

        def see(committed: Sequence[int], provisional: Sequence[int]) -> None:
            nonlocal drawn
            now = time.monotonic()
            is_due = asked["live"] and now - drawn >= PROVISIONAL_SECONDS and self._events.is_read
            if committed or is_due:
                drawn = now
                run = list(provisional) if asked["live"] else []
                self._events.say({"tokens": list(committed), "run": run})

        def heard(state: LinkState) -> None:
            if not is_held:
                self._told(state)
            self._events.say({"link": state.value})

        prompt = SplitPrompt(tuple(asked["safe"]), None if asked["private"] is None else tuple(asked["private"]))
        return await router.answer(prompt, _settings(asked["settings"]), see, heard, tuple(asked["offered"]))

    def _end(self, event: Event) -> None:
        self._events.say({**event, "is_private": self._router.is_private, "is_sound": self._router.is_sound})


def _settings(said: Event) -> Settings:
    return Settings(**{**said, "stop": tuple(said["stop"]), "sampling": Sampling(**said["sampling"])})
