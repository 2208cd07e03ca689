"""Real processes in a row: a server, a link that can be broken, and `outrider serve`, which apps ask.

Knows processes and addresses, not what is asked.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from client.demo.children import Child, running
from common.address import Address
from common.stated_costs import HALF_THE_CORES


@asynccontextmanager
async def endpoint(server: Address, cache: Path, seats: int) -> AsyncIterator[tuple[Child, str]]:
    """The process and its HOST:PORT. It says nothing that the target has not said, and waits for a server that is
    away."""
    arguments = ("--server", str(server), "--listen", "127.0.0.1:0", "--cache-dir", str(cache))
    manner = ("--offline", "refuse", "--offline-wait", "120", "--parallel", str(seats))
    async with running("outrider", "serve", *arguments, *manner, "--threads", str(HALF_THE_CORES)) as child:
        yield child, await child.ready()
