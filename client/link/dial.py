"""Dialling a server that may be out of reach: with frequent retries, so that the end of an outage shows at once.

May know addresses, TCP and connections, and nothing of what is sent on them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from client.link.resolve import keep_up_to_date, look_up
from client.link.stream import Access
from common.address import Address
from common.rpc.errors import LinkError
from common.rpc.proxy import proxy_to
from common.rpc.stub import Connection

_RETRY_INTERVAL_S = 0.25
"""From one attempt to the next, and from one address of a name to its next (RFC 8305). Left to itself a kernel retries
only after 1, 3 and 7 s."""

_MOST_PROBES = 40
"""TCP probes that wait for an answer: as many as leave within the longest round trip that we wait for."""

_MOST_HOSTS = 4
"""Of a name that a probe waits for at a time: each takes a socket."""

_MOST_ATTEMPTS = 4
"""Connections in the making at a time: after an outage all pending handshakes complete at once."""


async def dial(access: Access) -> Connection:
    """An established connection, or one on which the first call reports why it cannot be established.

    Each attempt is a gRPC connection and a TCP probe beside it. An established connection costs no extra round trip;
    the probe, which is waited for longer, tells a server that refuses, or that is farther away than the few connections
    wait, from one that does not answer. Raises LinkError if the port is closed or the name unknown, MisuseError for
    broken credentials; if nothing answers, it goes on until it is cancelled.
    """
    # The name of a server behind a proxy is the proxy's to look up, and its port the proxy's to try.
    proxy = proxy_to(access.address)
    try:
        return await _dial(access, proxy or access.address)
    except LinkError as error:
        if proxy is None:
            raise
        raise LinkError(f"the HTTP proxy {proxy}, which the environment names, cannot be reached") from error


async def _dial(access: Access, first: Address) -> Connection:
    """As `dial`; `first` is where a connection leads first."""
    try:
        hosts = await look_up(first)
    except (OSError, UnicodeError) as error:
        raise _out_of_reach(first) from error
    async with _Attempts(access) as attempts, _cancelled_together() as beside:
        beside.append(asyncio.create_task(keep_up_to_date(hosts, first)))
        probing = asyncio.create_task(_probe(first, hosts, attempts.begin))
        beside.append(probing)
        await asyncio.wait((probing, attempts.established), return_when=asyncio.FIRST_COMPLETED)
        if attempts.established.done():
            return attempts.take(attempts.established.result())
        probing.result()
        last = attempts.begin()
        await asyncio.wait((last.settling, attempts.established), return_when=asyncio.FIRST_COMPLETED)
        return attempts.take(attempts.established.result() if attempts.established.done() else last.connection)


@dataclass(frozen=True, slots=True, eq=False)
class _Attempt:
    connection: Connection
    settling: asyncio.Task[None]


class _Attempts:
    """The newest few connections in the making; `established` is the first that succeeds. Leaving it closes all but
    the one that was taken."""

    def __init__(self, access: Access):
        self.established: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
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
        if len(self._attempts) == _MOST_ATTEMPTS:
            self._give_up_oldest()
        connection = self._access.connect()
        self._attempts.append(_Attempt(connection, asyncio.create_task(self._settle(connection))))
        return self._attempts[-1]

    def take(self, connection: Connection) -> Connection:
        self._attempts = [attempt for attempt in self._attempts if attempt.connection is not connection]
        return connection

    async def _settle(self, connection: Connection) -> None:
        if await connection.stands() and not self.established.done():
            self.established.set_result(connection)

    def _give_up_oldest(self) -> None:
        self._given_up.append(asyncio.create_task(_give_up(self._attempts.pop(0))))


async def _give_up(attempt: _Attempt) -> None:
    attempt.settling.cancel()
    await asyncio.gather(attempt.settling, return_exceptions=True)
    await attempt.connection.close()


async def _probe(address: Address, hosts: Sequence[str], on_probe: Callable[[], object]) -> None:
    """Returns once a TCP probe of the port succeeds; `on_probe` is called with each. Raises LinkError if the port is
    closed."""
    async with _cancelled_together() as probes:
        while True:
            if len(probes) == _MOST_PROBES:
                probes.pop(0).cancel()
            probes.append(asyncio.create_task(_connect(address, hosts)))
            on_probe()
            done, _ = await asyncio.wait(probes, timeout=_RETRY_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
            for probe in done:
                probe.result()
                return


@asynccontextmanager
async def _cancelled_together() -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = []
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _connect(address: Address, hosts: Sequence[str]) -> None:
    """Makes a TCP connection to the first host that accepts one, and closes it. None waits long for those before it:
    where IPv6 leads nowhere, its packets are swallowed."""
    async with _cancelled_together() as connecting:
        left = list(hosts)
        while left or connecting:
            if left:
                connecting.append(asyncio.create_task(_connect_to(left.pop(0), address.port)))
            may_begin = left and len(connecting) < _MOST_HOSTS
            timeout = _RETRY_INTERVAL_S if may_begin else None
            done, _ = await asyncio.wait(connecting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if any(each.exception() is None for each in done):
                return
            connecting[:] = [each for each in connecting if each not in done]
    raise _out_of_reach(address)


async def _connect_to(host: str, port: int) -> None:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()


def _out_of_reach(address: Address) -> LinkError:
    return LinkError(f"the server at {address} cannot be reached; check its address and your link")
