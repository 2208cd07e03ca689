"""The server's side of the wire, in messages: it connects each stream to the engine.

It may not know frames, slots or passes.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, FromClient
from common.rpc.credentials import CallMetadata
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.service import OutriderService
from server.engine import Engine
from server.fault_isolation import describe_error
from server.models.bundles import BundleStore
from server.security.tokens import NOBODY, Tokens
from server.sessions.outgoing_queue import OutgoingQueue

_log = logging.getLogger(__name__)

FIRST_FRAME_SECONDS = 30.0
"""How long a stream may stay silent before its Open."""


class Servicer(OutriderService):
    def __init__(
        self,
        description: ServerDescription,
        bundle_store: BundleStore,
        engine: Engine,
        tokens: Tokens | None = None,
        first_frame_seconds: float = FIRST_FRAME_SECONDS,
    ):
        self._description = description
        self._bundle_store = bundle_store
        self._engine = engine
        self._tokens = tokens
        self._first_frame_seconds = first_frame_seconds

    def describe(self) -> ServerDescription:
        return self._description

    def fetch(self, request: FileRequest) -> AsyncGenerator[bytes]:
        return self._bundle_store.read(request)

    @asynccontextmanager
    async def generate(
        self, messages: AsyncIterator[FromClient], metadata: CallMetadata
    ) -> AsyncGenerator[OutgoingQueue]:
        """One stream. When its context is left, its session is over or on lease."""
        # The call gate has refused calls without a valid token.
        client = None if self._tokens is None else self._tokens.holder(metadata)
        stream = OutgoingQueue(client or NOBODY)
        listening = asyncio.create_task(self._listen(messages, stream))
        try:
            yield stream
        finally:
            listening.cancel()
            self._engine.leave(stream)

    async def _listen(self, messages: AsyncIterator[FromClient], stream: OutgoingQueue) -> None:
        try:
            async with asyncio.timeout(self._first_frame_seconds) as silence:
                async for message in messages:
                    silence.reschedule(None)
                    self._engine.receive(stream, message)
            self._engine.half_close(stream)
        except TimeoutError:
            self._engine.fail(stream, PeerError(f"no Open came within {self._first_frame_seconds:g} seconds"))
        except PeerError as error:
            self._engine.fail(stream, error)
        # Whatever fails on one stream must not reach the others.
        except Exception as error:
            _log.error("a stream failed: %s", describe_error(error))
            self._engine.fail(stream, PeerError("the server failed on this session", FailureCode.INTERNAL))
