"""The server's end of the wire: what a server implements, in messages rather than frames, and its registration.

It may not know the engine, the target or sessions: it carries messages between them and gRPC.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
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
)
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from common.rpc.generated.outrider.v1.outrider_pb2_grpc import OutriderServicer, add_OutriderServicer_to_server

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["Outrider"].full_name


class OutriderService(ABC):
    """What an Outrider server does."""

    @abstractmethod
    def describe(self) -> ServerDescription: ...

    @abstractmethod
    def fetch(self, request: FileRequest) -> AsyncIterator[bytes]:
        """The file's bytes in chunks. Raises PeerError where the request names nothing that is handed out."""

    @abstractmethod
    def generate(self, messages: AsyncIterator[FromClient]) -> AsyncIterator[FromServer]:
        """One stream. `messages` ends when the client ends it, and raises PeerError at a malformed frame; the
        stream lasts until the returned iterator ends, which is closed early where the client is gone."""


def register(service: OutriderService, server: grpc.aio.Server) -> None:
    """Makes `server` answer with `service`; before the server starts."""
    add_OutriderServicer_to_server(_Servicer(service), server)  # type: ignore[no-untyped-call]


class _Servicer(OutriderServicer):
    def __init__(self, service: OutriderService):
        self._service = service

    async def Describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeReply:  # noqa: N802
        return description_frame(self._service.describe())

    async def FetchBundle(self, request: pb.FetchBundleRequest, context: Any) -> AsyncIterator[pb.BundleChunk]:  # noqa: N802
        try:
            async for data in self._service.fetch(file_request(request)):
                yield pb.BundleChunk(data=data)
        except PeerError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    async def Generate(self, frames: AsyncIterator[pb.ClientFrame], context: Any) -> AsyncIterator[pb.ServerFrame]:  # noqa: N802
        async for message in self._service.generate(_messages(frames)):
            yield frame_from_server(message)


async def _messages(frames: AsyncIterator[pb.ClientFrame]) -> AsyncIterator[FromClient]:
    try:
        async for frame in frames:
            yield message_from_client(frame)
    except DecodeError as error:
        raise PeerError("a frame cannot be decoded") from error
