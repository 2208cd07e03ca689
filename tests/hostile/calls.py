"""Calls that begin and never end: every way to occupy a server's capacity without a session."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from grpc_health.v1 import health_pb2

from common.bundle import BundleManifest
from common.rpc.channel import MAX_FROM_CLIENT_BYTES
from common.rpc.convert import file_request_frame
from common.rpc.description import FileRequest
from tests.hostile.http2 import Connection

_OUTRIDER, _HEALTH = "/outrider.v1.Outrider/", "/grpc.health.v1.Health/"
_BALLAST = b"x" * (MAX_FROM_CLIENT_BYTES - 100)

Begin = Callable[[Connection, BundleManifest], Awaitable[None]]


@dataclass(frozen=True)
class HostileCall:
    begin: Begin
    window: int = 65_535  # the flow-control window: bytes that the server may send on it unread


def _silent(path: str) -> HostileCall:
    """The request never comes."""

    async def begin(connection: Connection, _: BundleManifest) -> None:
        await connection.call(path)

    return HostileCall(begin)


def _unfinished(path: str) -> HostileCall:
    """The request claims the largest allowed size and never ends."""

    async def begin(connection: Connection, _: BundleManifest) -> None:
        await connection.say(await connection.call(path), _BALLAST, MAX_FROM_CLIENT_BYTES)

    return HostileCall(begin)


def _watch(name: str = "", window: int = 65_535) -> HostileCall:
    """A health check of the service `name` that never ends."""

    async def begin(connection: Connection, _: BundleManifest) -> None:
        request = health_pb2.HealthCheckRequest(service=name).SerializeToString()
        await connection.say(await connection.call(f"{_HEALTH}Watch"), request, last=True)

    return HostileCall(begin, window)


async def _fetch(connection: Connection, bundle: BundleManifest) -> None:
    largest = max(bundle.files, key=lambda file: file.size)
    request = file_request_frame(FileRequest(bundle.id, largest.path, 0)).SerializeToString()
    await connection.say(await connection.call(f"{_OUTRIDER}FetchBundle"), request, last=True)


HOSTILE_CALLS: Mapping[str, HostileCall] = {
    "a health check without a request": _silent(f"{_HEALTH}Check"),
    "a health check whose request does not end": _unfinished(f"{_HEALTH}Check"),
    "a watcher": _watch(),
    "a watcher that reads nothing": _watch(window=0),
    "a watcher of a service with a name of 0.9 MB": _watch("x" * 900_000),
    "a question without a request": _silent(f"{_OUTRIDER}Describe"),
    "a question whose request does not end": _unfinished(f"{_OUTRIDER}Describe"),
    "a download without a request": _silent(f"{_OUTRIDER}FetchBundle"),
    "a download that is not read": HostileCall(_fetch, window=0),
    "a download whose request does not end": _unfinished(f"{_OUTRIDER}FetchBundle"),
    "a stream without its Open": _silent(f"{_OUTRIDER}Generate"),
    "a stream whose Open does not end": _unfinished(f"{_OUTRIDER}Generate"),
    "a call of no method": _silent(f"{_OUTRIDER}Nothing"),
}
