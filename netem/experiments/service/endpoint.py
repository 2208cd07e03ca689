"""Runs `outrider serve` as a process in front of a server. Knows processes and addresses, not requests."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from client.demo.children import Child, running
from common.address import Address
from common.stated_costs import HALF_THE_CORES

WAITS = ("--offline", "refuse", "--offline-wait", "120")
"""It emits committed tokens only, and waits for a server that is away."""


@asynccontextmanager
async def endpoint(
    server: Address, cache: Path, parallel: int, settings: Sequence[str] = WAITS
) -> AsyncIterator[tuple[Child, str]]:
    """The process and its HOST:PORT. parallel: how many requests it answers at a time."""
    arguments = ("--server", str(server), "--listen", "127.0.0.1:0", "--cache-dir", str(cache))
    options = ("--parallel", str(parallel), "--threads", str(HALF_THE_CORES))
    async with running("outrider", "serve", *arguments, *settings, *options) as child:
        yield child, await child.ready()
