"""OpenAI's paths: requests become answers, streamed or whole, and faults keep their shape.

Knows HTTP and the service. It may not know sessions or text.
"""

import asyncio
import json
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from http import HTTPStatus
from secrets import randbits
from typing import Any, TypeVar
from uuid import uuid4

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from client.endpoint.access_checks import AccessChecks, AccessRules
from client.endpoint.answer_parsers.pieces import ToolCall
from client.endpoint.answers import Answers, Event, HeldAnswers
from client.endpoint.faults import Fault, FaultError, internal, no_embeddings, no_such_path, shutting_down, wrong
from client.endpoint.openai_requests import DRAWN_SEED_BITS, CompletionRequest, RequestKind, read_chat, read_completion
from client.endpoint.openai_responses import FinishedAnswer, ResponseBuilder, model, model_list
from client.endpoint.served_models import ServedModels
from client.endpoint.sse import DONE, EventStream, event, until_disconnected
from common.protocol.plain import plain
from common.protocol.sampling import Sampling

_IDS = {RequestKind.CHAT: "chatcmpl-", RequestKind.COMPLETION: "cmpl-"}

_HEADER_NAME = re.compile(r"[\w.\[\]-]{1,64}", re.ASCII)
_MOST_NAMED = 16

_MOST_DIGITS = 1000  # of a whole number, without its sign

_CLIENT_CLOSED_REQUEST = 499  # nginx's code for it; the client no longer reads it

Result = TypeVar("Result")

Health = Callable[[], Awaitable[dict[str, Any]]]


class OpenAiPaths:
    """`strict`: requests with unknown parameters are refused; otherwise they are answered with a warning."""

    def __init__(self, models: ServedModels, defaults: Sampling, health: Health, *, strict: bool = False):
        self._models = models
        self._defaults = defaults
        self._health = health
        self._strict = strict
        self._began = int(time.time())
        self._held = HeldAnswers()

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/completions", self._complete, methods=["POST"]),
            Route("/v1/embeddings", _refuse_embeddings, methods=["POST"]),
            Route("/v1/models", self._list_models),
            Route("/v1/models/{name:path}", self._show_model),
            Route("/health", self._tell_health),
        ]

    async def _chat(self, request: Request) -> ASGIApp:
        chat_request = read_chat(await read_json(request), self._fresh(), strict=self._strict)
        return await self._answer(request, replace(chat_request, is_read=chat_request.stream))

    async def _complete(self, request: Request) -> ASGIApp:
        body = await read_json(request)
        return await self._answer(request, read_completion(body, self._fresh(), strict=self._strict))

    def _fresh(self) -> Sampling:
        """What a request does not set itself."""
        return replace(self._defaults, seed=randbits(DRAWN_SEED_BITS))

    async def _answer(self, http: Request, request: CompletionRequest) -> ASGIApp:
        service = self._models.find(request.model)
        choices = await asyncio.to_thread(service.choices, request)
        builder = ResponseBuilder(
            request.kind,
            _IDS[request.kind] + uuid4().hex,
            int(time.time()),
            request.model,
            *service.fingerprints,
            sum(len(choice.prompt.tokens) for choice in choices[:: request.count]),
            tuple(choice.echo for choice in choices),
        )
        answers, headers = self._held.begin(service, choices), warning((*request.ignored, *choices[0].unheeded))
        try:
            if request.stream:
                # A failure before the first text has an HTTP status of its own.
                first = await unless_disconnected(http, answers.next())
                return EventStream(_events(builder, request, first, answers), answers.cancel, headers)
            return JSONResponse(builder.whole(await unless_disconnected(http, answers.all())), headers=headers)
        except BaseException:  # the client may have disconnected, or this endpoint may be ending
            answers.cancel()
            raise

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
    middleware = [Middleware(AccessChecks, rules=rules), Middleware(_ShutdownFaults)]
    if rules.origins:  # a browser asks for leave first, without the key
        cross_origin = Middleware(
            CORSMiddleware,
            allow_origins=sorted(rules.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            allow_private_network=True,
            expose_headers=["Retry-After", "Warning"],
        )
        middleware.insert(0, cross_origin)
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


class _ShutdownFaults:
    """Sends a fault for a request that shutdown cancels before anything of its response was sent, in the shape of its
    API; uvicorn would send plain text."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except asyncio.CancelledError:
            if not has_begun:
                fault = shutting_down()
                await JSONResponse(fault.body_at(scope["path"]), fault.status)(scope, receive, send)
            raise


async def unless_disconnected(request: Request, waiting: Coroutine[Any, Any, Result]) -> Result:
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


async def read_json(request: Request) -> Any:
    """The body's JSON value. Raises FaultError if it is none, or may come from a page of another origin."""
    # A page of another origin can send any other type without a preflight request.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        message = "send JSON, and the header 'Content-Type: application/json'"
        raise FaultError(Fault(415, message, code="unsupported_media_type"))
    try:
        return json.loads(await request.body(), parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)
    except RecursionError:
        raise wrong(None, "the body's JSON is nested too deeply; send it flatter", "invalid_json") from None
    except ValueError as error:
        raise wrong(None, f"the body is not valid JSON: {error}", "invalid_json") from error


def _finite(number: str) -> float:
    """No answer could repeat an infinite one."""
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{plain(number)} is too large")
    return value


def _whole(number: str) -> int:
    """Python refuses far longer ones too, but in words about Python."""
    digits = len(number.removeprefix("-"))
    if digits > _MOST_DIGITS:
        raise ValueError(f"a number of {digits:,} digits is too long")
    return int(number)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


async def _events(
    builder: ResponseBuilder, request: CompletionRequest, first: Event, answers: Answers
) -> AsyncIterator[bytes]:
    for chunk in builder.opening():
        yield event(chunk)
    finished: list[FinishedAnswer] = []
    calls = [0] * len(answers.tasks)
    index, news = first
    try:
        while True:
            if isinstance(news, FinishedAnswer):
                finished.append(news)
                yield event(builder.closing(index, news))
            else:
                for chunk in builder.piece(index, news, calls[index]):
                    yield event(chunk)
                calls[index] += isinstance(news, ToolCall)
            if len(finished) == len(answers.tasks):
                break
            index, news = await answers.next()
    except FaultError as error:
        yield event(error.fault.body())
        return
    except Exception as error:  # the client must be told that no more will come
        yield event(internal(error).body())
        return
    if request.include_usage:
        yield event(builder.usage(finished))
    yield DONE


def warning(ignored: Sequence[str]) -> dict[str, str]:
    """A header that names parameters without effect, none if there are none."""
    if not ignored:
        return {}
    odd = "one with an odd name"
    names = ", ".join(name if _HEADER_NAME.fullmatch(name) else odd for name in ignored[:_MOST_NAMED])
    return {"Warning": f'299 outrider "ignored: {names}"'}


async def _refuse_embeddings(_: Request) -> Response:
    raise FaultError(no_embeddings())


async def _tell_fault(request: Request, error: FaultError) -> Response:
    return JSONResponse(error.fault.body_at(request.url.path), error.fault.status, error.fault.headers())


async def _tell_http_fault(request: Request, error: HTTPException) -> Response:
    fault = Fault(error.status_code, str(error.detail))
    if error.status_code == HTTPStatus.NOT_FOUND:
        fault = no_such_path(request.url.path)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        fault = Fault(error.status_code, f"{request.url.path} does not take {request.method}; use {allowed}")
    return JSONResponse(fault.body_at(request.url.path), fault.status, error.headers)


async def _tell_crash(request: Request, error: Exception) -> Response:
    fault = internal(error)
    return JSONResponse(fault.body_at(request.url.path), fault.status)


async def _ignore_disconnect(_: Request, __: ClientDisconnect) -> Response:
    return Response(status_code=_CLIENT_CLOSED_REQUEST)
