"""Access checks of every call before its handler runs: the bearer token, a slot in the pool of its kind, and how long
the server waits for its request and for its client to read.

Every call is handled as a stream, because only then the connection is known before the request is read, and the server
chooses how long it waits for the request. It may not know what any call does.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health

from common.clock import Clock
from common.rpc.service import SERVICE_NAME
from server.security.call_pools import CallKind, CallPools, CallRefusal, CallRefusedError, CallSlot
from server.security.reset_call import reset_call
from server.security.tokens import NOBODY, Tokens

_OPEN_TO_ALL = f"/{health.SERVICE_NAME}/"

_STALL_SECONDS = 30.0
"""How long a client may leave a message unread, which is 64 KiB of a file at most."""

_KINDS = {
    f"{_OPEN_TO_ALL}Check": CallKind.HEALTH_CHECK,
    f"{_OPEN_TO_ALL}List": CallKind.HEALTH_CHECK,
    f"{_OPEN_TO_ALL}Watch": CallKind.HEALTH_WATCH,
    f"/{SERVICE_NAME}/FetchBundle": CallKind.FETCH,
    f"/{SERVICE_NAME}/Generate": CallKind.OPENING,
}

_SAID = {
    CallRefusal.TOKEN: (grpc.StatusCode.UNAUTHENTICATED, "the bearer token is missing or wrong"),
    CallRefusal.CONNECTION: (grpc.StatusCode.RESOURCE_EXHAUSTED, "this connection has too many calls of this kind"),
    CallRefusal.CLIENT: (grpc.StatusCode.RESOURCE_EXHAUSTED, "this token has too many calls of this kind"),
    CallRefusal.DISPLACED: (grpc.StatusCode.RESOURCE_EXHAUSTED, "the server gave this call's place to a newer one"),
    CallRefusal.SLOW: (grpc.StatusCode.DEADLINE_EXCEEDED, "the client let the server wait too long"),
    CallRefusal.SIZE: (grpc.StatusCode.INVALID_ARGUMENT, "the request is larger than any that is meant here"),
    CallRefusal.REQUEST: (grpc.StatusCode.INVALID_ARGUMENT, "the request cannot be decoded"),
    CallRefusal.METHOD: (grpc.StatusCode.UNIMPLEMENTED, "this server has no such method"),
}

on_stream_end: ContextVar[Callable[[], None]] = ContextVar("on_stream_end", default=lambda: None)
"""What the handler of a stream calls when its session is over or on lease, though its last messages are unread: from
then on the call counts as another kind."""

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]


class CallGate(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    def __init__(
        self,
        tokens: Tokens | None,
        pools: CallPools,
        stall_seconds: float = _STALL_SECONDS,
        clock: Clock = time.monotonic,
    ):
        """`tokens` is None where no token is asked for."""
        self._tokens = tokens
        self._pools = pools
        self._stall_seconds = stall_seconds
        self._clock = clock

    async def intercept_service(self, continuation: Continuation, details: Any) -> Any:
        client = NOBODY if self._tokens is None else self._tokens.holder(details.invocation_metadata)
        kind = _KINDS.get(details.method, CallKind.DESCRIBE)
        if client is None and not details.method.startswith(_OPEN_TO_ALL):
            return self._refusing(kind, CallRefusal.TOKEN)
        handler = await continuation(details)
        if handler is None:
            return self._refusing(kind, CallRefusal.METHOD)

        async def answer(requests: Any, context: Any) -> None:
            if not await self._admit(handler, kind, client or NOBODY, requests, context):
                await reset_call()

        deserializer = handler.request_deserializer if handler.request_streaming else None
        return grpc.stream_stream_rpc_method_handler(answer, deserializer, handler.response_serializer)

    def _refusing(self, kind: CallKind, call_refusal: CallRefusal) -> Any:
        async def refuse(_: Any, context: Any) -> None:
            if not await self._refuse(kind, call_refusal, _StallTimedContext(context, self._stall_seconds)):
                await reset_call()

        return grpc.stream_stream_rpc_method_handler(refuse)

    async def _admit(self, handler: Any, kind: CallKind, client: str, requests: Any, context: Any) -> bool:
        """Whether the call ended with a status; False where only a reset can end it."""
        reader = _StallTimedContext(context, self._stall_seconds)
        try:
            async with asyncio.timeout(None) as patience:
                call = _Call(self._pools, self._clock, patience, context.peer(), client)
                try:
                    call.enter(kind)
                    reader.slot = call.slot
                    await self._answer(handler, call, requests, reader)
                    return True
                finally:
                    call.end()
        except CallRefusedError as error:
            return await self._refuse(kind, error.call_refusal, reader)
        except TimeoutError:
            return await self._refuse(kind, call.given_up or CallRefusal.SLOW, reader)

    async def _answer(self, handler: Any, call: "_Call", requests: Any, reader: "_StallTimedContext") -> None:
        if handler.request_streaming:
            on_stream_end.set(partial(call.enter, CallKind.ENDED))
            request = call.left_when_opened(requests)
        else:
            request = await self._request(handler, call.kind, requests)
        answer = _behaviour(handler)(request, reader)
        if hasattr(answer, "__aiter__"):
            async for message in answer:
                await reader.write(message)
        elif handler.response_streaming:
            await answer
        else:
            await reader.write(await answer)

    async def _request(self, handler: Any, kind: CallKind, requests: Any) -> Any:
        """The single request of a call. Raises CallRefusedError for an invalid one, TimeoutError where none comes."""
        limits = self._pools.limits[kind]
        async with asyncio.timeout(limits.request_seconds):
            request = await anext(aiter(requests), None)
        if request is None:
            raise CallRefusedError(CallRefusal.REQUEST)
        if len(request) > limits.request_bytes:
            raise CallRefusedError(CallRefusal.SIZE)
        try:
            return handler.request_deserializer(request)
        except DecodeError as error:
            raise CallRefusedError(CallRefusal.REQUEST) from error

    async def _refuse(self, kind: CallKind, call_refusal: CallRefusal, reader: "_StallTimedContext") -> bool:
        """Answers with the refusal; whether the client read it in time."""
        self._pools.count(kind, call_refusal, self._clock())
        if reader.is_writing:
            return False
        try:
            async with asyncio.timeout(None) as patience:
                call = _Call(self._pools, self._clock, patience, reader.peer(), NOBODY)
                try:
                    call.enter(CallKind.REFUSED)
                    await reader.abort(*_SAID[call_refusal])
                    return True
                finally:
                    call.end()
        except TimeoutError:
            return False


class _StallTimedContext:
    """A call's gRPC context, whose writes end with TimeoutError where the client does not read."""

    def __init__(self, context: Any, stall_seconds: float):
        self._context = context
        self._stall_seconds = stall_seconds
        self.is_writing = False
        self.slot: CallSlot | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def write(self, message: Any) -> None:
        """Raises TimeoutError where the client does not read it in time."""
        self.is_writing = True
        async with asyncio.timeout(self._stall_seconds):
            await self._context.write(message)
        self.is_writing = False
        if self.slot is not None and self.slot.kind is CallKind.FETCH:
            self.slot.moved_bytes += message.ByteSize()


@dataclass(slots=True)
class _Call:
    """A call and its slot, of one kind after another; `patience` ends the call."""

    pools: CallPools
    clock: Clock
    patience: asyncio.Timeout
    peer: str
    client: str
    slot: CallSlot | None = None
    given_up: CallRefusal | None = None
    is_over: bool = False

    @property
    def kind(self) -> CallKind:
        assert self.slot is not None
        return self.slot.kind

    def enter(self, kind: CallKind) -> None:
        """Takes a slot of that kind. Raises CallRefusedError where there is none."""
        if self.is_over:
            return
        self.leave()
        slot = CallSlot(kind, self.peer, self.client, self.clock(), self._give_up)
        self.pools.enter(slot, self.clock())
        self.slot = slot
        seconds = self.pools.limits[kind].seconds
        if isfinite(seconds) and not self.patience.expired():
            self.patience.reschedule(asyncio.get_running_loop().time() + seconds)

    def leave(self) -> None:
        if self.slot is not None:
            self.pools.leave(self.slot)
            self.slot = None

    def end(self) -> None:
        self.leave()
        self.is_over = True

    async def left_when_opened(self, requests: Any) -> AsyncIterator[Any]:
        """A stream is opening until its Open has been dealt with, which may take time and memory of its own."""
        async for request in requests:
            yield request
            if self.slot is not None and self.slot.kind is CallKind.OPENING:
                self.leave()

    def _give_up(self, call_refusal: CallRefusal) -> None:
        self.given_up, self.slot = call_refusal, None
        if not self.patience.expired():
            self.patience.reschedule(asyncio.get_running_loop().time())


def _behaviour(handler: Any) -> Callable[[Any, Any], Any]:
    """The behaviour of a handler: the one of four that is set."""
    names = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
    behaviour: Callable[[Any, Any], Any] = next(filter(None, (getattr(handler, name) for name in names)))
    return behaviour
