"""A whole server in the test's own event loop, on a free loopback port."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from common.address import Address
from common.protocol.client_session import ClientSession, Limits
from common.rpc.stub import Connection
from server.assembly import assemble
from server.engine import Engine
from server.options import AccessOptions, ChosenTarget, Pace, ServeOptions, SessionOptions, TargetOptions


def options_for(target: Path, *drafts: Path) -> ServeOptions:
    """Options for tests: float64, one thread, loopback without TLS."""
    return ServeOptions(
        target=TargetOptions((ChosenTarget(str(target), 8192),), tuple(map(str, drafts)), "cpu", "float64", 1),
        sessions=SessionOptions("eager", 128, 256, 16, Pace()),
        access=AccessOptions(Address("127.0.0.1", 0), None, None, None, None, insecure=False),
        drain_seconds=5.0,
    )


def with_access(options: ServeOptions, **changes: object) -> ServeOptions:
    return replace(options, access=replace(options.access, **changes))


def with_sessions(options: ServeOptions, **changes: object) -> ServeOptions:
    return replace(options, sessions=replace(options.sessions, **changes))


@dataclass(frozen=True)
class Running:
    address: str
    engine: Engine  # of the first target
    engines: Sequence[Engine]


@contextlib.asynccontextmanager
async def running(options: ServeOptions) -> AsyncIterator[Running]:
    """Leaving it ends the server as if it were killed: a fleet is not told."""
    parts = assemble(options)
    if parts.fleet is not None:
        await parts.fleet.join()
    await parts.server.start()
    engines = [target.engine for target in parts.targets]
    passes = [asyncio.create_task(each.run()) for each in (*engines, parts.fleet) if each is not None]
    try:
        yield Running(str(parts.address), engines[0], engines)
    finally:
        await parts.server.stop(0)
        for each in passes:
            each.cancel()
        for ended in await asyncio.gather(*passes, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended


async def new_session(connection: Connection) -> ClientSession:
    said = await connection.describe()
    limits = Limits(said.fingerprint, said.vocab_size, said.context, said.max_nodes, lambda constraint: None)
    return ClientSession(uuid4().hex, limits)
