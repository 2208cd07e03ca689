"""Completion servers in this process, for tests: transformers' shell, and one that says what a test tells it to."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from client.endpoint.sse import event
from common.address import Address
from netem.links.sockets import free_port


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[Address]:
    address = Address("127.0.0.1", free_port())
    server = uvicorn.Server(uvicorn.Config(app, host=address.host, port=address.port, log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield address
    server.should_exit = server.force_exit = True
    await serving


def stand_in(
    pieces: Sequence[Sequence[int]],
    last: dict | None,
    pause_s: float = 0.0,
    stalls: bool = False,
    asked: list[dict] | None = None,
) -> Starlette:
    """Speaks as llama.cpp's server does. last: fields of its last event; None: it closes in mid-answer. stalls: it says
    nothing more behind the pieces. asked: gets the requests."""

    async def events() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield event({"index": 0, "content": "", "tokens": list(piece), "stop": False, "id_slot": -1})
            await asyncio.sleep(pause_s)
        if stalls:
            await asyncio.sleep(60)
        if last is not None:
            yield event({"index": 0, "content": "", "tokens": [], "stop": True, "stop_type": "eos", **last})

    async def complete(request: Request) -> StreamingResponse:
        body = await request.json()
        if asked is not None:
            asked.append(body)
        return StreamingResponse(events(), media_type="text/event-stream")

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    return Starlette(routes=[Route("/completion", complete, methods=["POST"]), Route("/health", health)])
