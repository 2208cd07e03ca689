"""The client's end of the wire: a connection, and one generation stream on it, in messages rather than frames.

It may not know sessions, reconnecting or time: whoever holds it decides when to connect, and again when.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from common.address import parse_destination
from common.protocol.errors import MisuseError
from common.protocol.messages import FromClient, FromServer, State
from common.rpc.channel import CLIENT_OPTIONS, MAX_FROM_CLIENT_BYTES, NO_COMPRESSION, NO_HTTP_PROXY
from common.rpc.convert import (
    description,
    file_request_frame,
    frame_from_client,
    message_from_server,
)
from common.rpc.credentials import ClientTls, bearer_metadata, client_credentials
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.errors import LinkError, translated
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from common.rpc.generated.outrider.v1.outrider_pb2_grpc import OutriderStub
from common.rpc.traffic import Traffic

PREFIX_BYTES = 5
"""The prefix that gRPC puts before every message."""

SESSION_HEADER = "outrider-session"
"""Names the session of a call, for load balancers that keep a session on one server by hashing it. It grants nothing:
who may resume a session is decided by its id and its owner. Its value is a digest: ids do not belong into logs."""


class GenerateStream:
    """One `Generate` call, whose sender never waits: messages wait in a queue while the link is slow. Needs a running
    event loop.

    `start` makes the call, with the first message, because a server does not wait long for that; `on_close` is awaited
    after `close`. `bears_token` says that the call has a bearer token.
    """

    def __init__(
        self,
        start: Callable[[], Any],
        address: str,
        on_close: Callable[[], Awaitable[None]] | None = None,
        *,
        bears_token: bool = False,
    ):
        self._start = start
        self._translated = partial(translated, address=address, bears_token=bears_token)
        self._on_close = on_close
        self._started: Any = None
        self._closed = False
        self._refused: MisuseError | None = None  # of what cannot be sent
        self._bytes_up = 0
        self._bytes_down = 0
        self._state_bytes: Counter[str] = Counter()
        self._outgoing: asyncio.Queue[FromClient] = asyncio.Queue()
        self.send = self._outgoing.put_nowait
        """Never waits; messages leave in order. What a broken stream does not take is dropped: `receive` reports it."""
        self._writer = asyncio.create_task(self._write())

    @property
    def traffic(self) -> Traffic:
        return Traffic(self._bytes_up, self._bytes_down, dict(self._state_bytes))

    async def receive(self) -> FromServer | None:
        """The next message; None where the server ended the stream without an error, and after `close`.

        Raises LinkError or another OutriderError where the stream broke, PeerError for a malformed frame, MisuseError
        where a message was longer than a server takes.
        """
        if self._closed and self._started is None:
            return None
        try:
            frame = await anext(self._frames, None)
        except grpc.RpcError as error:
            raise self._translated(error) from error
        except asyncio.CancelledError:
            # gRPC raises this for its own cancelled call too, which is not the cancellation of our task.
            if _our_task_is_cancelled():
                raise
            if self._refused is not None:
                raise self._refused from None
            if self._closed:
                return None
            raise
        if frame is None:
            return None
        size_bytes = frame.ByteSize() + PREFIX_BYTES
        self._bytes_down += size_bytes
        message = message_from_server(frame)
        if isinstance(message, State):
            self._state_bytes[message.kind] += size_bytes
        return message

    def close(self) -> None:
        """Ends the stream at once; the server drops what belongs to it."""
        self._closed = True
        if self._started is not None and not self._started.cancel():
            self._reading_out = asyncio.ensure_future(self._read_out())
        self._writer.cancel()
        if self._on_close is not None:
            self._closing = asyncio.ensure_future(self._on_close())
            self._on_close = None

    @property
    def _call(self) -> Any:
        if self._started is None:
            self._started = self._start()
        return self._started

    @cached_property
    def _frames(self) -> AsyncIterator[pb.ServerFrame]:
        # Iterated, because `read` loses what the server said last when a write fails meanwhile.
        return aiter(self._call)

    async def _write(self) -> None:
        # Reading fails by the same fault, and reports it.
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            while True:
                frame = frame_from_client(await self._outgoing.get())
                size_bytes = frame.ByteSize()
                if size_bytes > MAX_FROM_CLIENT_BYTES:
                    # gRPC would say the same of it as of a broken connection.
                    self._refused = MisuseError(
                        f"the conversation is too long to be sent: {size_bytes:,} bytes, of which a server takes "
                        f"{MAX_FROM_CLIENT_BYTES:,} at once; shorten it"
                    )
                    self._call.cancel()
                    return
                self._bytes_up += size_bytes + PREFIX_BYTES  # first: a long frame is long under way
                await self._call.write(frame)

    async def _read_out(self) -> None:
        """Reads what is left of a call that a failed write has ended: until then it occupies one of the few streams of
        a connection."""
        # RuntimeError where another task is reading already.
        with suppress(grpc.RpcError, RuntimeError):
            async for _ in self._frames:
                pass


def _our_task_is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


_SETTLED = frozenset(
    (
        grpc.ChannelConnectivity.READY,
        grpc.ChannelConnectivity.TRANSIENT_FAILURE,
        grpc.ChannelConnectivity.SHUTDOWN,
    )
)


class Connection:
    """A channel to one server. An async context manager: leaving it closes the channel and every stream on it."""

    def __init__(self, channel: grpc.aio.Channel, address: str, token: str | None):
        self._channel = channel
        self._stub = OutriderStub(channel)  # type: ignore[no-untyped-call]
        self._health = health_pb2_grpc.HealthStub(channel)
        self._address = address
        self._metadata = bearer_metadata(token)
        self._translated = partial(translated, address=address, bears_token=bool(self._metadata))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channel.close()

    @property
    def is_ready(self) -> bool:
        """Whether it is connected and, as far as TCP knows, unbroken. Dials nothing."""
        return self._channel.get_state() is grpc.ChannelConnectivity.READY

    async def stands(self) -> bool:
        """Connects, without a time limit; whether it succeeded."""
        state = self._channel.get_state(try_to_connect=True)
        while state not in _SETTLED:
            await self._channel.wait_for_state_change(state)
            state = self._channel.get_state(try_to_connect=True)
        return state is grpc.ChannelConnectivity.READY

    async def describe(self, timeout: float | None = None, model: str = "") -> ServerDescription:
        """The server's description of the target of that name, of its first where it is empty. `timeout` in seconds.

        Raises LinkError, MisuseError or PeerError, as for every call; PeerError where there is no such target.
        """
        request = pb.DescribeRequest(model=model)
        with self._failures_translated():
            reply = await self._stub.Describe(request, timeout=timeout, metadata=self._metadata)
        return description(reply)

    async def check(self) -> bool:
        """Returns once the server has answered a health check, the shortest call that there is.

        Raises LinkError or another OutriderError where it does not; where nothing answers, it waits.
        """
        with self._failures_translated():
            reply = await self._health.Check(health_pb2.HealthCheckRequest())
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)

    @contextmanager
    def _failures_translated(self) -> Iterator[None]:
        """Of one call that has one reply."""
        try:
            yield
        except grpc.RpcError as error:
            raise self._translated(error) from error
        except asyncio.CancelledError as error:
            # gRPC raises this for a call on a connection that was closed meanwhile, too.
            if _our_task_is_cancelled():
                raise
            raise LinkError(f"the connection to the server at {self._address} was closed") from error

    async def fetch(self, request: FileRequest) -> AsyncGenerator[bytes]:
        """The bytes of one file of a bundle from the request's offset on, in chunks."""
        call = self._stub.FetchBundle(file_request_frame(request), metadata=self._metadata)
        try:
            async for chunk in call:
                yield chunk.data
        except grpc.RpcError as error:
            raise self._translated(error) from error
        finally:
            call.cancel()  # for a caller that has read enough

    def generate(
        self, on_close: Callable[[], Awaitable[None]] | None = None, session: str | None = None
    ) -> GenerateStream:
        """A new stream; the first message on it is Open, for `session` where that is given. `on_close` is awaited after
        it is closed."""
        metadata = self._metadata if session is None else (*self._metadata, (SESSION_HEADER, _digest(session)))
        start = partial(self._stub.Generate, metadata=metadata)
        return GenerateStream(start, self._address, on_close, bears_token=bool(self._metadata))


def _digest(session: str) -> str:
    return hashlib.sha256(session.encode()).hexdigest()[:32]


def connect(address: str, *, tls: ClientTls | None = None, token: str | None = None) -> Connection:
    """A connection to `HOST:PORT`; dials when first used. Needs a running event loop.

    Raises MisuseError for broken credentials and for what is no address.
    """
    # A proxy from the environment must not get, in plain text, traffic that is meant to stay on this machine.
    stays_here = parse_destination(address).is_loopback
    options = (*CLIENT_OPTIONS, NO_HTTP_PROXY) if stays_here else CLIENT_OPTIONS
    if tls is None:
        channel = grpc.aio.insecure_channel(address, options=options, compression=NO_COMPRESSION)
    else:
        credentials = client_credentials(tls)
        channel = grpc.aio.secure_channel(address, credentials, options=options, compression=NO_COMPRESSION)
    return Connection(channel, address, token)
