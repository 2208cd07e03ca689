"""The server's side of the wire, in messages: it connects each stream to the engine of its target.

It may not know frames, slots or passes.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from common.address import Address
from common.protocol.checks import check_settings
from common.protocol.errors import PeerError
from common.protocol.messages import Extend, FailureCode, FromClient, Open, Pong
from common.protocol.plain import plain
from common.rpc.credentials import CallMetadata
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.service import OutriderService
from server.constraint_compiler import ConstraintCompiler, machine_of
from server.engine import Engine
from server.fault_isolation import describe_error
from server.models.bundles import BundleStore
from server.security.call_gate import on_stream_end
from server.security.tokens import NOBODY, Tokens
from server.sessions.outgoing_queue import OutgoingQueue

_log = logging.getLogger(__name__)

FIRST_FRAME_SECONDS = 30.0
"""How long a stream may stay silent before its Open."""

STANDS = Pong(0)
"""Tells a client that its stream stands, without a Ping."""

_STANDS_EVERY_S = 0.05
"""Half of the silence after which a client near the server probes its stream."""


class ServedTarget(Protocol):
    """A target as clients see it: its engine, and what they are told of it."""

    @property
    def engine(self) -> Engine: ...

    @property
    def description(self) -> ServerDescription: ...


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """What clients choose a replica by: the part of its sessions that is in use, and the addresses of all replicas,
    none for a server that is alone."""

    load: float = 0.0
    replicas: tuple[Address, ...] = ()


class Servicer(OutriderService):
    def __init__(
        self,
        targets: Sequence[ServedTarget],
        bundle_store: BundleStore,
        tokens: Tokens | None = None,
        first_frame_seconds: float = FIRST_FRAME_SECONDS,
        standing: Callable[[], ReplicaStatus] = ReplicaStatus,
    ):
        """The first of `targets` is the default. `standing` is asked with every description."""
        self._default = targets[0]
        self._by_model = {target.description.model: target for target in targets}
        self._by_fingerprint = {target.description.fingerprint: target for target in targets}
        self._bundle_store = bundle_store
        self._tokens = tokens
        self._first_frame_seconds = first_frame_seconds
        self._standing = standing
        self._compiler = ConstraintCompiler()

    def describe(self, model: str) -> ServerDescription:
        target = self._by_model.get(model) if model else self._default
        if target is None:
            known = ", ".join(self._by_model)
            raise PeerError(f"this server has no model '{plain(model)}'; choose from: {known}", FailureCode.INVALID)
        standing = self._standing()
        return replace(target.description, load=standing.load, replicas=standing.replicas)

    def fetch(self, request: FileRequest) -> AsyncGenerator[bytes]:
        return self._bundle_store.read(request)

    @asynccontextmanager
    async def generate(
        self, messages: AsyncIterator[FromClient], metadata: CallMetadata, peer: str
    ) -> AsyncGenerator[OutgoingQueue]:
        """One stream. When its context is left, its session is over or on lease."""
        # The call gate has refused calls without a valid token.
        client = None if self._tokens is None else self._tokens.holder(metadata)
        outgoing = OutgoingQueue(client or NOBODY, on_stream_end.get())
        stream = _Stream(outgoing, self._default.engine, client or machine_of(peer))
        listening = asyncio.create_task(self._listen(messages, stream))
        try:
            yield stream.outgoing
        finally:
            listening.cancel()
            stream.engine.leave(stream.outgoing)

    async def _listen(self, messages: AsyncIterator[FromClient], stream: "_Stream") -> None:
        outgoing = stream.outgoing
        try:
            async with asyncio.timeout(self._first_frame_seconds) as silence:
                async for message in messages:
                    if outgoing.ended:  # whatever else comes is of no use
                        return
                    if silence.when() is not None:
                        silence.reschedule(None)
                        if isinstance(message, Open):
                            stream.engine = self._engine_of(message.fingerprint)
                    if isinstance(message, Open | Extend) and message.settings.constraint is not None:
                        await self._receive_constrained(stream, message)
                    else:
                        stream.engine.receive(outgoing, message)
            stream.engine.half_close(outgoing)
        except TimeoutError:
            stream.engine.fail(outgoing, PeerError(f"no Open came within {self._first_frame_seconds:g} seconds"))
        except PeerError as error:
            stream.engine.fail(outgoing, error)
        # Whatever fails on one stream must not reach the others.
        except Exception as error:
            _log.error("a stream failed: %s", describe_error(error))
            stream.engine.fail(outgoing, PeerError("the server failed on this session", FailureCode.INTERNAL))

    async def _receive_constrained(self, stream: "_Stream", message: Open | Extend) -> None:
        """Receives a request whose constraint was compiled before: its session would compile it while passes wait.
        Raises PeerError."""
        check_settings(message.settings)
        engine, outgoing = stream.engine, stream.outgoing
        if not engine.is_to_prepare(outgoing, message):
            engine.receive_prepared(outgoing, message)
            return
        work = partial(engine.sessions.terms.constrain, message.settings.constraint)
        # While it waited for its turn, its client's other requests may have used up the quota.
        async with _saying_that_it_stands(outgoing), self._compiler.turn_of(stream.caller) as compile_:
            with engine.preparing(outgoing, message) as is_of_use:
                # Kept until its session has it.
                compiled = await compile_(work) if is_of_use else None
                engine.receive_prepared(outgoing, message)
                del compiled

    def _engine_of(self, fingerprint: str) -> Engine:
        """The default target's for a fingerprint of none, which its sessions refuse."""
        return self._by_fingerprint.get(fingerprint, self._default).engine


@asynccontextmanager
async def _saying_that_it_stands(outgoing: OutgoingQueue) -> AsyncGenerator[None]:
    """While the block runs nothing is read, and no Ping is answered: a client would take its stream for broken."""

    async def say() -> None:
        while True:
            outgoing.put(STANDS)
            await asyncio.sleep(_STANDS_EVERY_S)

    saying = asyncio.create_task(say())
    try:
        yield
    finally:
        saying.cancel()


@dataclass(slots=True)
class _Stream:
    """A client's stream; its engine is known once its first frame has come."""

    outgoing: OutgoingQueue
    engine: Engine
    caller: str  # the name of its token, or its machine
