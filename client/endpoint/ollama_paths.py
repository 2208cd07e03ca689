"""Ollama's paths, for apps that speak its API alone: `/api/chat`, `/api/generate`, `/api/tags`, `/api/ps`, `/api/show`,
`/api/version`.

Knows HTTP and the service. It may not know sessions or text.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from secrets import randbits
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from client.endpoint.answers import Answers, Event, HeldAnswers
from client.endpoint.app import read_json, unless_disconnected, warning
from client.endpoint.faults import FaultError, internal
from client.endpoint.ollama import (
    OllamaBuilder,
    read_ollama_chat,
    read_ollama_generate,
    read_ollama_load,
    read_ollama_show,
)
from client.endpoint.ollama_models import OllamaModel
from client.endpoint.openai_requests import DRAWN_SEED_BITS, CompletionRequest
from client.endpoint.openai_responses import FinishedAnswer
from client.endpoint.served_models import ServedModels
from client.endpoint.service import Service
from client.endpoint.sse import EventStream
from common.protocol.sampling import Sampling

_NDJSON = "application/x-ndjson"

_API_VERSION = "0.11.0"
"""Of the Ollama whose API this is, not of Outrider: apps refuse what is too old for them, VS Code all before 0.6.4."""


class OllamaPaths:
    def __init__(self, models: ServedModels, defaults: Sampling):
        self._models = models
        self._defaults = defaults
        self._began = _now()
        self._held = HeldAnswers()

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/api/chat", self._chat, methods=["POST"]),
            Route("/api/generate", self._generate, methods=["POST"]),
            Route("/api/tags", self._list_models),
            Route("/api/ps", self._list_loaded),
            Route("/api/show", self._show, methods=["POST"]),
            Route("/api/version", _tell_version),
        ]

    async def _chat(self, request: Request) -> ASGIApp:
        return await self._answer(request, read_ollama_chat, is_chat=True)

    async def _generate(self, request: Request) -> ASGIApp:
        return await self._answer(request, read_ollama_generate, is_chat=False)

    async def _answer(
        self, http: Request, read: Callable[[Any, Sampling], CompletionRequest], *, is_chat: bool
    ) -> ASGIApp:
        began_ns = time.monotonic_ns()
        body = await read_json(http)
        load = read_ollama_load(body, is_chat=is_chat)
        if load is not None:  # every model that is served here stays loaded
            self._models.find(load.model)
            return JSONResponse(OllamaBuilder(load.model, is_chat, prompt_tokens=0).loaded(load.reason, _now()))
        completion = read(body, replace(self._defaults, seed=randbits(DRAWN_SEED_BITS)))
        request = replace(completion, is_read=is_chat and completion.stream)
        service = self._models.find(request.model)
        choices = await asyncio.to_thread(service.choices, request)
        builder = OllamaBuilder(request.model, is_chat, len(choices[0].prompt.tokens))
        answers, headers = self._held.begin(service, choices), warning(choices[0].unheeded)
        try:
            if request.stream:
                first = await unless_disconnected(http, answers.next())
                lines = _lines(builder, first, answers, began_ns)
                return EventStream(lines, answers.cancel, headers, media_type=_NDJSON)
            (answer,) = await unless_disconnected(http, answers.all())
            whole = builder.whole(answer, _now(), time.monotonic_ns() - began_ns)
            return JSONResponse(whole, headers=headers)
        except BaseException:  # the client may have disconnected, or this endpoint may be ending
            answers.cancel()
            raise

    async def _list_models(self, _: Request) -> Response:
        return JSONResponse({"models": [model.listed(self._began) for model in self._all()]})

    async def _list_loaded(self, _: Request) -> Response:
        return JSONResponse({"models": [model.loaded() for model in self._all()]})

    async def _show(self, request: Request) -> Response:
        name = read_ollama_show(await read_json(request))
        service = self._models.find(name)
        capabilities = await asyncio.to_thread(service.capabilities)
        return JSONResponse(_model(name, service).shown(self._began, service.template, capabilities))

    def _all(self) -> list[OllamaModel]:
        return [_model(name, service) for name, service in self._models.by_name.items()]


def _model(name: str, service: Service) -> OllamaModel:
    return OllamaModel(name, service.model, service.digest, service.family, service.context)


async def _tell_version(_: Request) -> Response:
    return JSONResponse({"version": _API_VERSION})


async def _lines(builder: OllamaBuilder, first: Event, answers: Answers, began_ns: int) -> AsyncIterator[bytes]:
    event = first[1]
    try:
        while not isinstance(event, FinishedAnswer):
            yield _line(builder.piece(event, _now()))
            _, event = await answers.next()
        yield _line(builder.closing(event, _now(), time.monotonic_ns() - began_ns))
    except FaultError as error:
        yield _line({"error": error.fault.body()["error"]["message"]})
    except Exception as error:  # the client must be told that no more will come
        yield _line({"error": internal(error).body()["error"]["message"]})


def _line(value: Mapping[str, Any]) -> bytes:
    # In ASCII, because some clients end lines at U+2028 and its like too.
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
