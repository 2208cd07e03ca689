"""Looking a server's name up: in a thread that no program waits for, because no look-up can be cancelled.

A resolver that says nothing, as behind a captive portal, is given up after 10 to 40 s. May know addresses alone.
"""

import asyncio
import socket
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain, zip_longest
from threading import Thread

from common.address import Address

_REFRESH_INTERVAL_S = 10.0


async def look_up(address: Address) -> list[str]:
    """The hosts of a name, IPv6 and IPv4 by turns (RFC 8305, section 4). Raises OSError or UnicodeError for a
    name that has none."""
    found: Future[list[str]] = Future()

    def resolve() -> None:
        if not found.set_running_or_notify_cancel():
            return
        try:
            found.set_result(_hosts(address))
        except Exception as error:  # for who waits
            found.set_exception(error)

    Thread(target=resolve, name="name look-up", daemon=True).start()
    return await asyncio.wrap_future(found)


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
