"""`outrider serve`'s end of a chat: one conversation, for as long as the connection lasts.

The chat keeps its text and turns it into tokens. Private tokens go through a `PrivacyRouter`, as in the chat's own
process. It may not know text.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from client.answer import Answer
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from client.link.reconnecting_stream import LinkListener
from client.local_serve import messages
from client.local_serve.messages import AsyncConnection, ConnectionLostError, Fields
from client.private.router import PrivacyRouter
from client.private.spans import SplitPrompt
from client.provisional_pace import ProvisionalPace
from common.protocol.errors import OutriderError
from common.protocol.messages import Constraint, Settings
from common.protocol.sampling import Sampling

PROVISIONAL_INTERVAL_S = 0.04
"""Between provisional texts of an answer."""


class ChatServer:
    """`on_link_change` is called when the link changes, unless the user of the chat wants to be offline."""

    def __init__(self, router: PrivacyRouter, connection: AsyncConnection, on_link_change: LinkListener):
        self._router = router
        self._connection = connection
        self._on_link_change = on_link_change
        self._is_held = False
        self._answering: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Returns when the connection is lost, which ends an answer."""
        try:
            with suppress(ConnectionLostError):
                while True:
                    self._handle(await self._connection.receive())
                    await asyncio.sleep(0)  # an answer begins before what follows its prompt is handled
        finally:
            if self._answering is not None:
                self._answering.cancel()
                await asyncio.gather(self._answering, return_exceptions=True)
                if not self._answering.cancelled():
                    self._answering.result()  # raises what went wrong, for the log

    def _handle(self, message: Any) -> None:
        match message:
            case messages.ChatPrompt() if self._answering is None or self._answering.done():
                self._answering = asyncio.create_task(self._answer(message))
            case messages.ChatCancel():
                self._router.cancel()
            case messages.ChatRetry():
                self._router.retry_now()
            case _:
                raise ConnectionLostError

    async def _answer(self, prompt: messages.ChatPrompt) -> None:
        answer: Fields | None = None
        failed: Fields | None = None
        try:
            answer = asdict(await self._route(prompt))
        except OutriderError as error:
            failed = asdict(messages.AnswerFailed.of(error))
        except Exception:
            self._connection.close()  # the chat loads the draft itself
            raise
        self._connection.send(messages.ChatEnd(self._router.is_private, self._router.is_sound, answer, failed))

    async def _route(self, prompt: messages.ChatPrompt) -> Answer:
        router, pace = self._router, ProvisionalPace(PROVISIONAL_INTERVAL_S)
        router.offline = OfflineOptions(**prompt.offline)
        if prompt.is_held:
            router.hold()
        elif self._is_held:
            router.release()
        self._is_held = prompt.is_held

        def send_tokens(committed: Sequence[int], provisional: Sequence[int]) -> None:
            if committed:
                pace.begin_anew()
                self._connection.send(messages.ChatTokens(committed, provisional if prompt.is_live else ()))
            elif prompt.is_live:
                pace.show(lambda: send_provisional(provisional))

        def send_provisional(provisional: Sequence[int]) -> None:
            if self._connection.keeps_up:
                self._connection.send(messages.ChatTokens((), provisional))

        def link_changed(state: LinkState) -> None:
            if not prompt.is_held:
                self._on_link_change(state)
            self._connection.send(messages.ChatLink(state.value))

        split = SplitPrompt(tuple(prompt.safe), None if prompt.private is None else tuple(prompt.private))
        settings = _settings(prompt.settings)
        try:
            return await router.answer(split, settings, send_tokens, link_changed, tuple(prompt.offered))
        finally:
            pace.drop()


def _settings(fields: Fields) -> Settings:
    sampling, constraint = fields["sampling"], fields["constraint"]
    read = {
        "stop": tuple(fields["stop"]),
        "sampling": Sampling(**{**sampling, "logit_bias": tuple(map(tuple, sampling["logit_bias"]))}),
        "constraint": None if constraint is None else Constraint(**constraint),
    }
    return Settings(**{**fields, **read})
