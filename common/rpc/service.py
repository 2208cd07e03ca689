"""The server's end of the wire: what a server implements, in messages rather than frames, and its registration.

It may not know the engine, the target or sessions: it carries messages between them and gRPC.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from common.protocol.errors import PeerError
from common.protocol.messages import FromClient, FromServer
from common.rpc.convert import (
    description_frame,
    file_request,
    frame_from_server,
    message_from_client,
    requested_model,
)
from common.rpc.credentials import CallMetadata
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["Outrider"].full_name


class OutriderService(ABC):
    """The calls of an Outrider server."""

    @abstractmethod
    def describe(self, model: str) -> ServerDescription:
        """Of the target of that name, of the first where it is empty. Raises PeerError where there is none."""

    @abstractmethod
    def fetch(self, request: FileRequest) -> AsyncGenerator[bytes]:
        """The file's bytes in chunks. Raises PeerError where the request names no file of a bundle."""

    @abstractmethod
    def generate(
        self, messages: AsyncIterator[FromClient], metadata: CallMetadata, peer: str
    ) -> AbstractAsyncContextManager[AsyncIterable[FromServer]]:
        """One stream, of a call with that metadata over a connection with that address: a context that gives the
        server's messages. `messages` ends where the client closes its side, and raises PeerError at a malformed frame.

        The stream lasts until the server's messages end; the context is left early where the client is gone. A client
        that has closed its side still gets its answer to the end, or a Failed where that would take another word
        from it, such as an acknowledgement. A connection that breaks ends `messages` too, just before the context is
        left: the end of `messages` must not cost anything that a client could come back for.
        """


def register(service: OutriderService, server: grpc.aio.Server) -> None:
    """Makes `server` answer with `service`; before the server starts."""
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_no_clients_fault)
    servicer = _Servicer(service)
    handlers = {
        "Describe": grpc.unary_unary_rpc_method_handler(
            servicer.describe, pb.DescribeRequest.FromString, pb.DescribeReply.SerializeToString
        ),
        "FetchBundle": grpc.unary_stream_rpc_method_handler(
            servicer.fetch_bundle, pb.FetchBundleRequest.FromString, pb.BundleChunk.SerializeToString
        ),
        "Generate": grpc.stream_stream_rpc_method_handler(
            servicer.generate, message_from_client, pb.ServerFrame.SerializeToString
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE_NAME, handlers),))


def _is_no_clients_fault(record: logging.LogRecord) -> bool:
    """A log filter. gRPC logs a traceback for every request that it cannot decode and every message to a client that
    is gone, so that clients could fill the log."""
    raised = record.exc_info[0] if record.exc_info else None
    return raised is None or not issubclass(raised, (DecodeError, grpc.aio.InternalError))


class _Servicer:
    def __init__(self, service: OutriderService):
        self._service = service

    async def describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeReply:
        try:
            return description_frame(self._service.describe(requested_model(request)))
        except PeerError as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
            raise  # which `abort` has done

    # Coroutines that write, not generators: gRPC leaves an abandoned generator to the garbage collector, which would
    # release the slots of its session late.

    async def fetch_bundle(self, request: pb.FetchBundleRequest, context: Any) -> None:
        try:
            async with aclosing(self._service.fetch(file_request(request))) as chunks:
                async for data in chunks:
                    await context.write(pb.BundleChunk(data=data))
        except PeerError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    async def generate(self, messages: AsyncIterator[FromClient], context: Any) -> None:
        async with self._service.generate(messages, context.invocation_metadata(), context.peer()) as stream:
            async for message in stream:
                await context.write(frame_from_server(message))
