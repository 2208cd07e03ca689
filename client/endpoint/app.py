"""OpenAI's paths: requests become answers, streamed or whole, and faults keep their shape.

Knows HTTP and the service. It may not know sessions or text.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import replace
from http import HTTPStatus
from secrets import randbits
from typing import Any, TypeVar
from uuid import uuid4

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from client.endpoint.access_checks import AccessChecks, AccessRules
from client.endpoint.faults import Fault, FaultError, internal, no_such_path, wrong
from client.endpoint.openai_requests import CompletionRequest, RequestKind, read_chat, read_completion
from client.endpoint.openai_responses import FinishedAnswer, ResponseBuilder, TextPiece, model, model_list
from client.endpoint.served_models import ServedModels
from client.endpoint.sse import DONE, EventStream, event, until_disconnected
from common.protocol.sampling import Sampling

_IDS = {RequestKind.CHAT: "chatcmpl-", RequestKind.COMPLETION: "cmpl-"}

_CLIENT_CLOSED_REQUEST = 499  # nginx's code for it; the client no longer reads it

Result = TypeVar("Result")

Health = Callable[[], Awaitable[dict[str, Any]]]


class OpenAiPaths:
    def __init__(self, models: ServedModels, defaults: Sampling, health: Health):
        self._models = models
        self._defaults = defaults
        self._health = health
        self._began = int(time.time())
        self._ending: set[asyncio.Task[Any]] = set()

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/completions", self._complete, methods=["POST"]),
            Route("/v1/models", self._list_models),
            Route("/v1/models/{name:path}", self._show_model),
            Route("/health", self._tell_health),
        ]

    async def _chat(self, request: Request) -> ASGIApp:
        return await self._answer(request, read_chat(await read_json(request), self._fresh()))

    async def _complete(self, request: Request) -> ASGIApp:
        return await self._answer(request, read_completion(await read_json(request), self._fresh()))

    def _fresh(self) -> Sampling:
        """What a request does not set itself."""
        return replace(self._defaults, seed=randbits(64))

    async def _answer(self, http: Request, request: CompletionRequest) -> ASGIApp:
        service = self._models.find(request.model)
        prompt = await asyncio.to_thread(service.prompt, request)
        options = service.options(request, prompt)
        builder = ResponseBuilder(
            request.kind, _IDS[request.kind] + uuid4().hex, int(time.time()), request.model, *service.fingerprints
        )
        pieces: asyncio.Queue[TextPiece | None] = asyncio.Queue()
        answering = self._begin(service.answer(prompt, options, pieces.put_nowait))
        answering.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            if request.stream:
                # A failure before the first text has an HTTP status of its own.
                piece = await _unless_disconnected(http, pieces.get())
                if piece is None:
                    answering.result()
                events = _events(builder, request, piece, pieces, answering)
                return EventStream(events, answering.cancel)
            return JSONResponse(builder.whole(await _unless_disconnected(http, _result(answering))))
        except BaseException:  # the client may have disconnected, or this endpoint may be ending
            answering.cancel()
            raise

    def _begin(self, answer: Coroutine[Any, Any, FinishedAnswer]) -> asyncio.Task[FinishedAnswer]:
        """A task that, when cancelled, first ends the answer on the server."""
        task = asyncio.create_task(answer)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _list_models(self, _: Request) -> Response:
        return JSONResponse(model_list(self._models.contexts, self._began))

    async def _show_model(self, request: Request) -> Response:
        name = request.path_params["name"]
        return JSONResponse(model(name, self._models.find(name).context, self._began))

    async def _tell_health(self, _: Request) -> Response:
        return JSONResponse(await self._health())


def make_app(routes: list[BaseRoute], rules: AccessRules) -> Starlette:
    handlers: dict[Any, Any] = {
        FaultError: _tell_fault,
        HTTPException: _tell_http_fault,
        ClientDisconnect: _ignore_disconnect,
        Exception: _tell_crash,
    }
    return Starlette(routes=routes, middleware=[Middleware(AccessChecks, rules=rules)], exception_handlers=handlers)


async def _unless_disconnected(request: Request, waiting: Coroutine[Any, Any, Result]) -> Result:
    """The result of `waiting`. Raises ClientDisconnect if the client disconnects first."""
    tasks = asyncio.ensure_future(waiting), asyncio.ensure_future(until_disconnected(request.receive))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    if tasks[0].cancelled() or not tasks[0].done():
        raise ClientDisconnect
    return tasks[0].result()


async def _result(answering: "asyncio.Task[FinishedAnswer]") -> FinishedAnswer:
    return await asyncio.shield(answering)


async def read_json(request: Request) -> Any:
    """The body's JSON value. Raises FaultError if it is none, or may come from a page of another origin."""
    # A page of another origin can send any other type without a preflight request.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise FaultError(Fault(415, "send the body as application/json", code="unsupported_media_type"))
    try:
        return json.loads(await request.body(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise wrong(None, f"the body is not valid JSON: {error}", "invalid_json") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


async def _events(
    builder: ResponseBuilder,
    request: CompletionRequest,
    piece: TextPiece | None,
    pieces: "asyncio.Queue[TextPiece | None]",
    answering: "asyncio.Task[FinishedAnswer]",
) -> AsyncIterator[bytes]:
    for chunk in builder.opening():
        yield event(chunk)
    while piece is not None:
        yield event(builder.piece(piece))
        piece = await pieces.get()
    try:
        written = answering.result()
    except FaultError as error:
        yield event(error.fault.body())
        return
    except Exception as error:  # the client must be told that no more will come
        yield event(internal(error).body())
        return
    for chunk in builder.closing(written, include_usage=request.include_usage):
        yield event(chunk)
    yield DONE


async def _tell_fault(_: Request, error: FaultError) -> Response:
    return JSONResponse(error.fault.body(), error.fault.status, error.fault.headers())


async def _tell_http_fault(request: Request, error: HTTPException) -> Response:
    fault = Fault(error.status_code, str(error.detail))
    if error.status_code == HTTPStatus.NOT_FOUND:
        fault = no_such_path(request.url.path)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        fault = Fault(error.status_code, f"{request.url.path} is not asked by {request.method}")
    return JSONResponse(fault.body(), fault.status, error.headers)


async def _tell_crash(_: Request, error: Exception) -> Response:
    fault = internal(error)
    return JSONResponse(fault.body(), fault.status)


async def _ignore_disconnect(_: Request, __: ClientDisconnect) -> Response:
    return Response(status_code=_CLIENT_CLOSED_REQUEST)
