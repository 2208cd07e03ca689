"""Looking a server's name up: in a thread that no program waits for, because no look-up can be cancelled.

A resolver that says nothing, as behind a captive portal, is given up after 10 to 40 s. May know addresses alone.
"""

import asyncio
import socket
from contextlib import suppress
from itertools import chain, zip_longest
from threading import Thread

from common.address import Address

_REFRESH_INTERVAL_S = 10.0


async def look_up(address: Address) -> list[str]:
    """The hosts of a name, IPv6 and IPv4 by turns (RFC 8305, section 4). Raises OSError or UnicodeError for a
    name that has none."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def settle(hosts: list[str], error: Exception | None) -> None:
        if found.cancelled():
            return
        if error is None:
            found.set_result(hosts)
        else:
            found.set_exception(error)

    def resolve() -> None:
        try:
            hosts, error = _hosts(address), None
        except Exception as raised:  # for who waits
            hosts, error = [], raised
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, hosts, error)

    Thread(target=resolve, name="name look-up", daemon=True).start()
    return await found


async def keep_up_to_date(hosts: list[str], address: Address) -> None:
    """Replaces `hosts` by those of the name from time to time: a network that wants a login first lies about names.
    Never returns."""
    while True:
        await asyncio.sleep(_REFRESH_INTERVAL_S)
        with suppress(OSError, UnicodeError):
            hosts[:] = await look_up(address)


def _hosts(address: Address) -> list[str]:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    families: dict[int, list[str]] = {}
    for family, *_, sockaddr in found:
        families.setdefault(family, []).append(str(sockaddr[0]))
    by_turns = chain.from_iterable(zip_longest(*families.values()))
    return [host for host in by_turns if host is not None]
