"""A new connection to a server that may be out of reach: tried often, so that the end of an outage shows at once.

May know addresses, TCP and connections, and nothing of what is said on them.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from client.link.stream import Access
from common.address import Address
from common.rpc.errors import LinkError
from common.rpc.stub import Connection

_APART = 0.25
"""Seconds from one attempt to the next, as with several addresses of one name (RFC 8305). A kernel left alone asks
again only after 1, 3 and 7 s."""

_KNOCKS = 40
"""That wait for an answer: as many as leave within the longest round trip that we wait for."""

_AT_A_TIME = 4
"""Connections that are being made. All that an outage holds back comes through when it ends, and each of them greets
the server at length."""


async def reach(access: Access) -> Connection:
    """A connection that stands, or one on which the first call says why it does not.

    Each attempt is a connection and a knock at the server's port. Where the connection stands, no round trip was lost;
    the knock, a packet that is waited for longer, tells a server that is there and refuses, or is farther away than
    the few connections wait, from one that is not. Raises LinkError where the port is closed or the name unknown,
    MisuseError for broken credentials; where nothing answers, it goes on until it is cancelled.
    """
    # Once for all knocks: a lookup cannot be broken off, and each occupies a thread.
    hosts = await _look_up(access.address)
    async with _Making(access) as making:
        knocking = asyncio.create_task(_knock(access.address, hosts, making.begin))
        try:
            await asyncio.wait((knocking, making.standing), return_when=asyncio.FIRST_COMPLETED)
            if making.standing.done():
                return making.keep(making.standing.result())
            knocking.result()
            last = making.begin()
            await asyncio.wait((last.settling, making.standing), return_when=asyncio.FIRST_COMPLETED)
            return making.keep(making.standing.result() if making.standing.done() else last.connection)
        finally:
            knocking.cancel()
            await asyncio.gather(knocking, return_exceptions=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Attempt:
    connection: Connection
    settling: asyncio.Task[None]


class _Making:
    """Connections that are being made, the newest few; `standing` is the first of them that stands. Leaving it closes
    all but what was kept."""

    def __init__(self, access: Access):
        self.standing: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._access = access
        self._attempts: list[_Attempt] = []
        self._given_up: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._attempts:
            self._give_up_oldest()
        await asyncio.gather(*self._given_up)

    def begin(self) -> _Attempt:
        if len(self._attempts) == _AT_A_TIME:
            self._give_up_oldest()
        connection = self._access.connect()
        self._attempts.append(_Attempt(connection, asyncio.create_task(self._settle(connection))))
        return self._attempts[-1]

    def keep(self, connection: Connection) -> Connection:
        self._attempts = [attempt for attempt in self._attempts if attempt.connection is not connection]
        return connection

    async def _settle(self, connection: Connection) -> None:
        if await connection.stands() and not self.standing.done():
            self.standing.set_result(connection)

    def _give_up_oldest(self) -> None:
        self._given_up.append(asyncio.create_task(_give_up(self._attempts.pop(0))))


async def _give_up(attempt: _Attempt) -> None:
    attempt.settling.cancel()
    await asyncio.gather(attempt.settling, return_exceptions=True)
    await attempt.connection.close()


async def _knock(address: Address, hosts: Sequence[str], knocked: Callable[[], object]) -> None:
    """Returns once the port was answered at, `knocked` each time. Raises LinkError where it is closed."""
    async with _ended_together() as knocks:
        while True:
            if len(knocks) == _KNOCKS:
                knocks.pop(0).cancel()
            knocks.append(asyncio.create_task(_connect(address, hosts)))
            knocked()
            done, _ = await asyncio.wait(knocks, timeout=_APART, return_when=asyncio.FIRST_COMPLETED)
            for knock in done:
                knock.result()
                return


@asynccontextmanager
async def _ended_together() -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = []
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
