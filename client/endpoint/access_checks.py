"""Who may ask, and how much at once: names, origins, keys and the size of bodies, before anything is looked at.

An ASGI middleware. It may not know what is asked.
"""

import asyncio
from dataclasses import dataclass
from hmac import compare_digest
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from client.endpoint.faults import Fault, FaultError

MOST_BYTES = 4 * 1024 * 1024
_BODY_SECONDS = 30.0

_LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))
_OPEN_PATHS = frozenset(("/", "/health"))
_OPEN_FOLDER = "/static/"
"""What needs no key: it tells nothing of anybody's text, and reads no body."""


@dataclass(frozen=True, slots=True)
class Guard:
    """`names` are the hosts by which this endpoint is known, None for any; `key` is None where nobody needs one."""

    names: frozenset[str] | None
    key: str | None = None


def guard_for(host: str, key: str | None) -> Guard:
    """An endpoint that only this machine reaches answers to no name of another one, to which a page from elsewhere
    could have had itself resolved."""
    is_ours_alone = host in _LOOPBACK_NAMES or host.startswith("127.")
    return Guard(_LOOPBACK_NAMES | {host} if is_ours_alone else None, key)


class Gate:
    def __init__(self, app: ASGIApp, guard: Guard):
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        fault = self._fault(scope["path"], headers)
        if fault is None:
            try:
                receive = _replayed(await _whole_body(headers, receive), receive)
            except FaultError as error:
                fault = error.fault
        if fault is None:
            await self._app(scope, receive, send)
        else:
            await JSONResponse(fault.body(), fault.status, fault.headers())(scope, receive, send)

    def _fault(self, path: str, headers: Headers) -> Fault | None:
        guard = self._guard
        host = headers.get("host", "")
        if guard.names is not None and _name(host) not in guard.names:
            return Fault(403, "this endpoint is for its own machine; ask it as localhost", code="wrong_host")
        origin = headers.get("origin")
        is_from_elsewhere = headers.get("sec-fetch-site") == "cross-site" and path != "/"
        if is_from_elsewhere or (origin is not None and origin.partition("://")[2] != host):
            return Fault(403, "pages from elsewhere may not ask this endpoint", code="wrong_origin")
        if _is_open(path):
            # Refused unread, because anybody can send it.
            if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
                return Fault(413, f"{path} takes no body; send it to a path below /v1", code="body_too_long")
        elif guard.key is not None:
            given = headers.get("authorization", "")
            if not compare_digest(given.encode(), f"Bearer {guard.key}".encode()):
                return Fault(401, "the API key is missing or wrong", "authentication_error", None, "invalid_api_key")
        return None


def _is_open(path: str) -> bool:
    return path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER)


def _name(host: str) -> str:
    """Empty for what is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def _whole_body(headers: Headers, receive: Receive) -> bytes:
    """Raises FaultError where it is too long, or too slow in coming."""
    declared = headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > MOST_BYTES:
        raise _too_long()
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > MOST_BYTES:
                    raise _too_long()
    except TimeoutError as error:
        message_ = f"the body did not come within {_BODY_SECONDS:g} seconds"
        raise FaultError(Fault(408, message_, code="body_timeout")) from error
    return bytes(body)


def _too_long() -> FaultError:
    return FaultError(Fault(413, f"the body is longer than {MOST_BYTES} bytes", code="body_too_long"))


def _replayed(body: bytes, receive: Receive) -> Receive:
    """As `receive`, with the body in one message ahead of it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message
