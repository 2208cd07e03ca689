"""Whether a server can be reached: the cheapest question, asked often, so that the end of an outage shows at once.

May know addresses and TCP, and nothing of what is spoken there.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from common.address import Address
from common.rpc.errors import LinkError

_APART = 0.25
"""Seconds from one attempt to the next, as with several addresses of one name (RFC 8305). What waits for an answer is
not given up: the kernel alone would ask again only after 1, 3 and 7 s."""


async def reach(address: Address) -> None:
    """Returns once a connection to `address` stood. Raises LinkError where it is refused or its name is unknown; where
    nothing answers, goes on until it is cancelled."""
    # Once for all attempts: a lookup cannot be broken off, and each occupies a thread.
    hosts = await _look_up(address)
    async with _ended_together() as attempts:
        while True:
            attempts.add(asyncio.create_task(_connect(address, hosts)))
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


async def _look_up(address: Address) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise _out_of_reach(address) from error
    return [str(sockaddr[0]) for *_, sockaddr in found]


async def _connect(address: Address, hosts: Sequence[str]) -> None:
    """To the first of the hosts that can be connected to."""
    for host in hosts:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(host, address.port)
            writer.close()
            return
    raise _out_of_reach(address)


def _out_of_reach(address: Address) -> LinkError:
    return LinkError(f"the server at {address} cannot be reached; check its address and your link")
