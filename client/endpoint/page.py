"""The page at `/`: a chat that shows what is provisional, and how the link is.

Knows HTTP, the service and the monitor. It may not know sessions or text.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from secrets import randbits
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from client.assembly import Client
from client.endpoint.app import read_json
from client.endpoint.faults import wrong
from client.endpoint.live_answer import Change, Showing
from client.endpoint.monitor import Monitor
from client.endpoint.openai_requests import read_chat
from client.endpoint.service import Service
from client.endpoint.sse import EventStream, event
from common.protocol.sampling import Sampling

_BETWEEN_STATES = 1.0  # seconds

_FILES = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "text.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}

_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Switch(Protocol):
    """Cuts the link to the server, and restores it."""

    @property
    def is_cut(self) -> bool: ...

    def turn(self, *, cut: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Scene:
    """What the page is about; `switch` is None where the link is not ours to cut, `is_closing` tells when everybody is
    to leave."""

    client: Client
    service: Service
    monitor: Monitor
    defaults: Sampling
    switch: Switch | None
    is_closing: Callable[[], bool]


class PagePaths:
    def __init__(self, scene: Scene):
        self._scene = scene
        self._answering: set[asyncio.Task[Change]] = set()

    def routes(self) -> list[BaseRoute]:
        routes: list[BaseRoute] = [
            Route("/", _file("index.html", "text/html")),
            *(Route(f"/static/{name}", _file(name, kind)) for name, kind in _FILES.items()),
            Route("/page/answer", self._answer, methods=["POST"]),
            Route("/page/status", self._tell_status),
        ]
        if self._scene.switch is not None:
            routes.append(Route("/page/link", self._turn, methods=["POST"]))
        return routes

    async def _answer(self, request: Request) -> ASGIApp:
        scene = self._scene
        asked = read_chat(await read_json(request), replace(scene.defaults, seed=randbits(64)))
        prompt = await asyncio.to_thread(scene.service.prompt, asked)
        options = scene.service.options(asked, prompt)
        showing = Showing(scene.service, scene.client.tokenizer, scene.monitor, prompt, options)
        self._answering.add(showing.answering)
        showing.answering.add_done_callback(self._answering.discard)
        return EventStream(_events(showing.changes()), showing.stop)

    async def _tell_status(self, _: Request) -> ASGIApp:
        return EventStream(_events(self._states()), lambda: None)

    async def _states(self) -> AsyncIterator[Change]:
        async with self._scene.monitor.watched():
            while not self._scene.is_closing():
                yield self._state()
                await self._scene.monitor.changed(_BETWEEN_STATES)

    def _state(self) -> Change:
        scene = self._scene
        reading = scene.monitor.read()
        return {
            **asdict(reading),
            "link": reading.link.value,
            "server": str(scene.client.access.address),
            "model": scene.client.description.model,
            "draft": scene.client.manifest.draft,
            "is_cut": None if scene.switch is None else scene.switch.is_cut,
        }

    async def _turn(self, request: Request) -> Response:
        body = await read_json(request)
        cut = body.get("cut") if isinstance(body, dict) else None
        if not isinstance(cut, bool):
            raise wrong("cut", "'cut' must be true or false")
        assert self._scene.switch is not None
        self._scene.switch.turn(cut=cut)
        self._scene.monitor.stir()
        return Response(status_code=204)


def _file(name: str, kind: str) -> Callable[[Request], Any]:
    content = files(__package__).joinpath("static", name).read_bytes()

    def tell(_: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return tell


async def _events(changes: AsyncIterator[Change]) -> AsyncIterator[bytes]:
    async for change in changes:
        yield event(change)
