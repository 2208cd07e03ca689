"""The HTTP port of a fleet: one page of metrics at `/metrics`, and at `/health` whether any replica serves.

It may not know replicas: it asks for both pages on the event loop.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST

from common.address import Address
from server.observe.metrics_port import OpenPort

_ANSWER_S = 10.0


class Reply(NamedTuple):
    status: HTTPStatus
    type: str
    content: bytes


Answer = Callable[[], Awaitable[Reply]]


def metrics_reply(page: bytes) -> Reply:
    return Reply(HTTPStatus.OK, CONTENT_TYPE_LATEST, page)


def health_reply(health: dict[str, Any], *, is_serving: bool) -> Reply:
    status = HTTPStatus.OK if is_serving else HTTPStatus.SERVICE_UNAVAILABLE
    return Reply(status, "application/json", json.dumps(health).encode() + b"\n")


class FleetPort(OpenPort):
    def __init__(self, listen: Address, insecure: bool, answers: dict[str, Answer]):
        """Needs a running event loop, on which `answers` are asked, by path. Raises MisuseError as every `OpenPort`."""
        loop = asyncio.get_running_loop()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = answers.get(self.path)
                if answer is None:
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                reply = asyncio.run_coroutine_threadsafe(_asked(answer), loop).result(_ANSWER_S)
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.type)
                self.send_header("Content-Length", str(len(reply.content)))
                self.end_headers()
                self.wfile.write(reply.content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Scrapes are no news."""

        super().__init__(listen, Handler, insecure)


async def _asked(answer: Answer) -> Reply:
    return await answer()
