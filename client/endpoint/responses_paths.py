"""OpenAI's `/v1/responses`: requests become responses, whole or as events.

Knows HTTP and the service. It may not know sessions or text.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from secrets import randbits
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from client.endpoint.answers import Answers, Event, HeldAnswers
from client.endpoint.app import read_json, unless_disconnected, warning
from client.endpoint.faults import FaultError, internal
from client.endpoint.openai_requests import DRAWN_SEED_BITS
from client.endpoint.openai_responses import FinishedAnswer
from client.endpoint.responses_events import ResponseWriter
from client.endpoint.responses_requests import in_words_of_responses, our_name, read_response
from client.endpoint.served_models import ServedModels
from client.endpoint.sse import EventStream, named_event
from common.protocol.sampling import Sampling


class ResponsesPaths:
    """`strict`: requests with unknown parameters are refused; otherwise they are answered with a warning."""

    def __init__(self, models: ServedModels, defaults: Sampling, *, strict: bool = False):
        self._models = models
        self._defaults = defaults
        self._strict = strict
        self._held = HeldAnswers()

    def routes(self) -> list[BaseRoute]:
        return [Route("/v1/responses", self._create, methods=["POST"])]

    async def _create(self, http: Request) -> ASGIApp:
        body = await read_json(http)
        fresh = replace(self._defaults, seed=randbits(DRAWN_SEED_BITS))
        request = read_response(body, fresh, strict=self._strict)
        service = self._models.find(request.model)
        try:
            choices = await asyncio.to_thread(service.choices, request)
        except FaultError as error:
            raise in_words_of_responses(error) from error
        writer = ResponseWriter(request, body, len(choices[0].prompt.tokens), int(time.time()), _new_id)
        unheeded = map(our_name, choices[0].unheeded)
        answers, headers = self._held.begin(service, choices), warning((*request.ignored, *unheeded))
        try:
            if request.stream:
                # A failure before the first text has an HTTP status of its own.
                first = await unless_disconnected(http, answers.next())
                return EventStream(_events(writer, first, answers), answers.cancel, headers)
            (answer,) = await unless_disconnected(http, answers.all())
            return JSONResponse(writer.whole(answer), headers=headers)
        except BaseException:  # the client may have disconnected, or this endpoint may be ending
            answers.cancel()
            raise


async def _events(writer: ResponseWriter, first: Event, answers: Answers) -> AsyncIterator[bytes]:
    for event in writer.opening():
        yield named_event(event)
    news = first[1]
    try:
        while not isinstance(news, FinishedAnswer):
            for event in writer.piece(news):
                yield named_event(event)
            _, news = await answers.next()
        for event in writer.closing(news):
            yield named_event(event)
    except FaultError as error:
        yield named_event(writer.failed(error.fault))
    except Exception as error:  # the client must be told that no more will come
        yield named_event(writer.failed(internal(error)))


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid4().hex}"
