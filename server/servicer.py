"""The server's side of the wire, in messages: it connects each stream to the engine of its target.

It may not know frames, slots or passes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeGuard

from common.address import Address
from common.protocol.checks import check_settings
from common.protocol.errors import PeerError
from common.protocol.messages import Extend, FailureCode, FromClient, Grow, Open, Ping, Pong
from common.protocol.plain import plain
from common.rpc.credentials import CallMetadata
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.service import OutriderService
from server.constraint_compiler import ConstraintCompiler, machine_of
from server.engine import Engine
from server.fault_isolation import describe_error
from server.models.bundles import BundleStore
from server.security.tokens import NOBODY, Tokens
from server.sessions.outgoing_queue import OutgoingQueue

_log = logging.getLogger(__name__)

FIRST_FRAME_SECONDS = 30.0
"""How long a stream may stay silent before its Open."""

MAX_HELD = 4096
"""Frames, and nodes and tokens in them, that are read while a request is prepared and wait for it."""

STANDS = Pong(0)
"""Tells a client that its stream stands while its Open is prepared: it sends no Ping before it has heard something."""


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
        stream = _Stream(OutgoingQueue(client or NOBODY), self._default.engine, client or machine_of(peer))
        listening = asyncio.create_task(self._listen(messages, stream))
        try:
            yield stream.outgoing
        finally:
            listening.cancel()
            if stream.preparing is not None:
                stream.preparing.cancel()
            stream.engine.leave(stream.outgoing)

    async def _listen(self, messages: AsyncIterator[FromClient], stream: "_Stream") -> None:
        with _failing_alone(stream):
            try:
                async with asyncio.timeout(self._first_frame_seconds) as silence:
                    async for message in messages:
                        if stream.outgoing.ended:  # whatever else comes is of no use
                            return
                        if silence.when() is not None:
                            silence.reschedule(None)
                            if isinstance(message, Open):
                                stream.engine = self._engine_of(message.fingerprint)
                        if stream.preparing is not None or _is_constrained(message):
                            await self._receive_in_turn(stream, message)
                        else:
                            stream.engine.receive(stream.outgoing, message)
            except TimeoutError as error:
                raise PeerError(f"no Open came within {self._first_frame_seconds:g} seconds") from error
            if stream.preparing is not None:
                await stream.preparing
            stream.engine.half_close(stream.outgoing)

    async def _receive_in_turn(self, stream: "_Stream", message: FromClient) -> None:
        """A request that has to be prepared, and what comes behind it, which waits for it. Pings do not: a client takes
        a stream on which they are not answered at once for broken."""
        if stream.preparing is None:
            stream.preparing = asyncio.create_task(self._prepare(stream, message))
        elif isinstance(message, Ping):
            stream.outgoing.put(Pong(message.number))
        else:
            stream.held.append(message)
            if sum(map(_size, stream.held)) > MAX_HELD:
                await asyncio.wait((stream.preparing,))

    async def _prepare(self, stream: "_Stream", message: FromClient) -> None:
        stream.held.append(message)
        try:
            with _failing_alone(stream):
                while stream.held and not stream.outgoing.ended:
                    message = stream.held.popleft()
                    if _is_constrained(message):
                        await self._receive_constrained(stream, message)
                    else:
                        stream.engine.receive(stream.outgoing, message)
        finally:
            stream.preparing = None

    async def _receive_constrained(self, stream: "_Stream", message: Open | Extend) -> None:
        """Receives a request whose constraint was compiled before: its session would compile it while passes wait.
        Raises PeerError."""
        check_settings(message.settings)
        engine, outgoing = stream.engine, stream.outgoing
        if not engine.is_to_prepare(outgoing, message):
            engine.receive_prepared(outgoing, message)
            return
        if isinstance(message, Open):
            outgoing.put(STANDS)
        work = partial(engine.sessions.terms.constrain, message.settings.constraint)
        # While it waited for its turn, its client's other requests may have used up the quota.
        async with self._compiler.turn_of(stream.caller) as compile_:
            with engine.preparing(outgoing, message) as is_of_use:
                # Kept until its session has it.
                compiled = await compile_(work) if is_of_use else None
                engine.receive_prepared(outgoing, message)
                del compiled

    def _engine_of(self, fingerprint: str) -> Engine:
        """The default target's for a fingerprint of none, which its sessions refuse."""
        return self._by_fingerprint.get(fingerprint, self._default).engine


@dataclass(slots=True)
class _Stream:
    """A client's stream; its engine is known once its first frame has come."""

    outgoing: OutgoingQueue
    engine: Engine
    caller: str  # the name of its token, or its machine
    preparing: asyncio.Task[None] | None = None  # while a request is prepared
    held: deque[FromClient] = field(default_factory=deque)  # that came meanwhile


@contextmanager
def _failing_alone(stream: _Stream) -> Iterator[None]:
    """Whatever fails on one stream must not reach the others."""
    try:
        yield
    except PeerError as error:
        stream.engine.fail(stream.outgoing, error)
    except Exception as error:
        _log.error("a stream failed: %s", describe_error(error))
        stream.engine.fail(stream.outgoing, PeerError("the server failed on this session", FailureCode.INTERNAL))


def _is_constrained(message: FromClient) -> TypeGuard[Open | Extend]:
    return isinstance(message, Open | Extend) and message.settings.constraint is not None


def _size(message: FromClient) -> int:
    """The frame itself, and the nodes or tokens in it."""
    return 1 + (len(message.nodes) if isinstance(message, Grow) else len(getattr(message, "tokens", ())))
