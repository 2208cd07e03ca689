"""Copies the bytes of one connection to another and back without delay, where the link between has its own TCP.

A closed half closes the other side's half, a reset arrives as a reset. Knows no link.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from netem.links import sockets

_READ_BYTES = 32 * 1024

Count = Callable[[int], None]


async def relay(client: socket.socket, server: socket.socket, count_up: Count, count_down: Count) -> None:
    """Copies until both sides have closed, or one is gone. count_up, count_down: called with the bytes delivered."""
    try:
        async with asyncio.TaskGroup() as halves:
            halves.create_task(_carry(client, server, count_up))
            halves.create_task(_carry(server, client, count_down))
    except* OSError:
        sockets.reset_on_close(client)
        sockets.reset_on_close(server)


async def _carry(source: socket.socket, sink: socket.socket, count: Count) -> None:
    loop = asyncio.get_running_loop()
    while received := await loop.sock_recv(source, _READ_BYTES):
        await loop.sock_sendall(sink, received)
        count(len(received))
    # Both halves may have closed at once.
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
