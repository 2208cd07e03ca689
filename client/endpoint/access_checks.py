"""Access checks: host names, origins, API keys and the size of bodies, before a request is processed.

An ASGI middleware. It may not know what requests mean.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from hmac import compare_digest
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from client.endpoint.faults import OLLAMA_FOLDER, Fault, FaultError
from common.address import Address
from common.protocol.errors import MisuseError

MOST_BODY_BYTES = 4 * 1024 * 1024
_BODY_TIMEOUT_S = 30.0

_LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))
_OPEN_PATHS = frozenset(("/", "/health"))
_OPEN_FOLDER = "/static/"
"""Paths that need no key: they reveal no text of a user, and read no body."""
_SHARED_FOLDERS = ("/v1/", OLLAMA_FOLDER, "/health")
"""Paths that pages of allowed origins may use."""

ANY_ORIGIN = "*"


@dataclass(frozen=True, slots=True)
class AccessRules:
    """`names` are the accepted host names, None for any; `key` is None if no API key is needed; web pages of `origins`,
    of any if `*` is among them, may ask for answers."""

    names: frozenset[str] | None
    key: str | None = None
    origins: frozenset[str] = frozenset()

    def admits(self, origin: str, path: str) -> bool:
        """Whether a page of another origin may use the path. Our own page's paths are for our page alone."""
        return path.startswith(_SHARED_FOLDERS) and not self.origins.isdisjoint((origin, ANY_ORIGIN))


def access_rules_for(host: str, key: str | None, origins: Collection[str] = ()) -> AccessRules:
    """An endpoint on loopback accepts loopback names alone, against DNS rebinding: a foreign page could have its own
    name resolve to this machine."""
    names = _LOOPBACK_NAMES | {host} if Address(host, 0).is_loopback else None
    return AccessRules(names, key, frozenset(origins))


def check_origin(origin: str) -> str:
    """The origin of a web page or of a desktop app, or `*`. Raises MisuseError for another text: also for `null`, which
    any page can send from a sandboxed frame."""
    try:
        parts = urlsplit(origin)
        is_origin = parts.scheme != "" and origin == f"{parts.scheme}://{parts.netloc}"
        is_origin = is_origin and bool(parts.hostname) and origin == origin.lower()
    except ValueError:
        is_origin = False
    if not is_origin and origin != ANY_ORIGIN:
        raise MisuseError(
            f"--allow-origin takes an origin such as https://app.example.org or app://obsidian.md, or *, not '{origin}'"
        )
    return origin


class AccessChecks:
    def __init__(self, app: ASGIApp, rules: AccessRules):
        self._app = app
        self._rules = rules

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
            await JSONResponse(fault.body_at(scope["path"]), fault.status, fault.headers())(scope, receive, send)

    def _fault(self, path: str, headers: Headers) -> Fault | None:
        rules = self._rules
        host = headers.get("host", "")
        if rules.names is not None and _name(host) not in rules.names:
            return Fault(
                403, "this endpoint serves its own machine alone; use the host name localhost", code="wrong_host"
            )
        origin = headers.get("origin")
        is_from_elsewhere = headers.get("sec-fetch-site") == "cross-site" and path != "/"
        is_from_elsewhere |= origin is not None and origin.partition("://")[2] != host
        if is_from_elsewhere and not (origin is not None and rules.admits(origin, path)):
            return Fault(403, "cross-origin requests are not allowed", code="wrong_origin")
        if _is_open(path):
            # Refused unread, because anybody can send it.
            if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
                return Fault(413, f"{path} takes no body; send it to a path below /v1", code="body_too_long")
        elif rules.key is not None:
            given = headers.get("authorization", "")
            if not compare_digest(given.encode(), f"Bearer {rules.key}".encode()):
                return Fault(401, "the API key is missing or wrong", "authentication_error", None, "invalid_api_key")
        return None


def _is_open(path: str) -> bool:
    return path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER)


def _name(host: str) -> str:
    """The host name, empty if there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def _whole_body(headers: Headers, receive: Receive) -> bytes:
    """Raises FaultError for a body that is too long, or takes too long to arrive."""
    declared = headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > MOST_BODY_BYTES:
        raise _too_long()
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            more = True
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > MOST_BODY_BYTES:
                    raise _too_long()
    except TimeoutError as error:
        message_ = f"the body did not come within {_BODY_TIMEOUT_S:g} seconds"
        raise FaultError(Fault(408, message_, code="body_timeout")) from error
    return bytes(body)


def _too_long() -> FaultError:
    return FaultError(Fault(413, f"the body is longer than {MOST_BODY_BYTES} bytes", code="body_too_long"))


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that first delivers the whole body as one message."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message
