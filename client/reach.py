"""Whether a server can be reached: the cheapest question, asked often, so that the end of an outage shows at once.

May know addresses and TCP, and nothing of what is spoken there.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from common.address import Address
from common.rpc.errors import LinkError

_APART = 0.25
"""Seconds from one attempt to the next, as with several addresses of one name (RFC 8305). What waits for an answer is
not given up: the kernel alone would ask again only after 1, 3 and 7 s."""


async def reach(address: Address) -> None:
    """Returns once a connection to `address` stood. Raises LinkError where it is refused or its name is unknown; where
    nothing answers, goes on until it is cancelled."""
    async with _ended_together() as attempts:
        while True:
            attempts.add(asyncio.create_task(_connect(address)))
            done, _ = await asyncio.wait(attempts, timeout=_APART, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                attempt.result()
                return


@asynccontextmanager
async def _ended_together() -> AsyncIterator[set[asyncio.Task[None]]]:
    tasks: set[asyncio.Task[None]] = set()
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _connect(address: Address) -> None:
    try:
        _, writer = await asyncio.open_connection(address.host, address.port)
    except OSError as error:
        raise LinkError(f"the server at {address} cannot be reached; check its address and your link") from error
    writer.close()
