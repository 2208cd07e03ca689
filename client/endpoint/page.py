"""The page at `/`: a chat that shows what is provisional, and how the link is.

Knows HTTP, the service and the monitor. It may not know sessions or text.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import PurePath
from secrets import randbits
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from client.answering import AnswerOptions
from client.assembly import Client
from client.endpoint.app import read_json
from client.endpoint.faults import wrong
from client.endpoint.live_answer import Change, LiveAnswer
from client.endpoint.monitor import Monitor
from client.endpoint.openai_requests import DRAWN_SEED_BITS, read_chat
from client.endpoint.served_models import ALIAS, ServedModels
from client.endpoint.sse import EventStream, event
from common.protocol.errors import MisuseError
from common.protocol.rules import RULES, default_rule
from common.protocol.sampling import Sampling

_STATUS_INTERVAL_S = 1.0

_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
"""Of the files that the page loads, by their ending."""

_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LinkControl(Protocol):
    """Cuts the link to the server, and restores it."""

    @property
    def is_cut(self) -> bool: ...

    def turn(self, *, cut: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class PageContext:
    """What the page is made of; `link_control` is None if the link cannot be cut from here; `is_closing` tells when
    streams are to end because the endpoint is shutting down."""

    client: Client  # of the first model
    models: ServedModels
    monitor: Monitor
    defaults: Sampling
    rule: str | None  # that an answer follows which names none; None: the usual one for its temperature
    link_control: LinkControl | None
    is_closing: Callable[[], bool]


class PagePaths:
    def __init__(self, context: PageContext):
        self._context = context
        self._answering: set[asyncio.Task[Change]] = set()

    def routes(self) -> list[BaseRoute]:
        routes: list[BaseRoute] = [
            Route("/", _file("index.html", "text/html")),
            *(Route(f"/static/{name}", _file(name, kind)) for name, kind in _static_files()),
            Route("/page/answer", self._answer, methods=["POST"]),
            Route("/page/choices", self._tell_choices),
            Route("/page/status", self._tell_status),
        ]
        if self._context.link_control is not None:
            routes.append(Route("/page/link", self._turn, methods=["POST"]))
        return routes

    async def _answer(self, request: Request) -> ASGIApp:
        context = self._context
        body = await read_json(request)
        rule = body.pop("rule", None) if isinstance(body, dict) else None
        chat_request = read_chat(body, replace(context.defaults, seed=randbits(DRAWN_SEED_BITS)))
        service = context.models.find(chat_request.model)
        choice = (await asyncio.to_thread(service.choices, chat_request))[0]
        if rule is not None:
            choice = replace(choice, options=self._by_rule(choice.options, rule))
        live = LiveAnswer(service, service.tokenizer, context.monitor, choice)
        self._answering.add(live.answering)
        live.answering.add_done_callback(self._answering.discard)
        return EventStream(_events(live.changes()), live.stop)

    def _by_rule(self, options: AnswerOptions, rule: Any) -> AnswerOptions:
        """Raises FaultError for a rule that the server does not offer."""
        try:
            self._context.client.require_rule(rule)
            return replace(options, rule=rule)
        except MisuseError as error:
            raise wrong("rule", str(error)) from error

    async def _tell_choices(self, _: Request) -> Response:
        """What a person may choose among, and what holds if nothing is chosen."""
        context = self._context
        return JSONResponse(
            {
                "models": [name for name in context.models.contexts if name != ALIAS],
                "rules": [name for name in context.client.description.rules if name in RULES],
                "rule": context.rule or default_rule(temperature=1.0),
                "temperature": context.defaults.temperature,
            }
        )

    async def _tell_status(self, _: Request) -> ASGIApp:
        return EventStream(_events(self._states()), lambda: None)

    async def _states(self) -> AsyncIterator[Change]:
        async with self._context.monitor.watched():
            while not self._context.is_closing():
                yield self._state()
                await self._context.monitor.changed(_STATUS_INTERVAL_S)

    def _state(self) -> Change:
        context = self._context
        status = context.monitor.status()
        return {
            **asdict(status),
            "link": status.link.value,
            "server": str(context.client.access.address),
            "model": context.client.description.model,
            "draft": context.client.draft,
            "is_cut": None if context.link_control is None else context.link_control.is_cut,
        }

    async def _turn(self, request: Request) -> Response:
        body = await read_json(request)
        cut = body.get("cut") if isinstance(body, dict) else None
        if not isinstance(cut, bool):
            raise wrong("cut", "'cut' must be true or false")
        assert self._context.link_control is not None
        self._context.link_control.turn(cut=cut)
        self._context.monitor.probe_now()
        return Response(status_code=204)


def _static_files() -> Iterator[tuple[str, str]]:
    """Name and kind of each file that the page loads."""
    for entry in files(__package__).joinpath("static").iterdir():
        if kind := _KINDS.get(PurePath(entry.name).suffix):
            yield entry.name, kind


def _file(name: str, kind: str) -> Callable[[Request], Any]:
    content = files(__package__).joinpath("static", name).read_bytes()

    def tell(_: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return tell


async def _events(changes: AsyncIterator[Change]) -> AsyncIterator[bytes]:
    async for change in changes:
        yield event(change)
