"""The server's side of gRPC closes every stream that it opened, at once and in every case."""

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.message import DecodeError

from common.protocol.messages import FromClient, FromServer, Opened
from common.rpc.credentials import CallMetadata
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.service import OutriderService, _Servicer, register


class Endless(OutriderService):
    """Never stops answering; records whether it was closed."""

    closed = False

    def describe(self, model: str) -> ServerDescription:
        raise NotImplementedError

    def fetch(self, request: FileRequest) -> AsyncGenerator[bytes]:
        raise NotImplementedError

    @asynccontextmanager
    async def generate(
        self, messages: AsyncIterator[FromClient], metadata: CallMetadata, peer: str
    ) -> AsyncGenerator[AsyncIterator[FromServer]]:
        try:
            yield openings()
        finally:
            self.closed = True


class Unread:
    """The context of a call whose client reads nothing."""

    def __init__(self) -> None:
        self.is_writing = asyncio.Event()

    def invocation_metadata(self) -> CallMetadata:
        return ()

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5"

    async def write(self, _: Any) -> None:
        self.is_writing.set()
        await asyncio.Event().wait()


async def openings() -> AsyncGenerator[FromServer]:
    while True:
        yield Opened("s")


async def nothing() -> AsyncGenerator[Any]:
    return
    yield


async def test_a_call_that_is_over_has_given_back_what_it_held() -> None:
    service, context = Endless(), Unread()
    call = asyncio.create_task(_Servicer(service).generate(nothing(), context))
    await context.is_writing.wait()
    gc.disable()
    try:
        call.cancel()
        # `held` keeps the call's frames out of the garbage collector's reach.
        with pytest.raises(asyncio.CancelledError) as held:
            await call
        assert service.closed
        assert held
    finally:
        gc.enable()


@pytest.mark.parametrize(("raised", "is_told"), [(grpc.aio.InternalError, 0), (DecodeError, 0), (ValueError, 1)])
async def test_no_traceback_is_written_of_what_a_client_can_bring_about(
    caplog: pytest.LogCaptureFixture, raised: type[Exception], is_told: int
) -> None:
    """gRPC raises the first of these for every message to a call that its client has reset."""
    register(Endless(), grpc.aio.server())
    try:
        raise raised
    except Exception:
        logging.getLogger("grpc._cython.cygrpc").exception("raised in core by servicer method")
    assert len(caplog.records) == is_told
