"""Opens, tunes and closes the TCP sockets of the emulators. Knows nothing of links, rates or delays."""

import asyncio
import contextlib
import errno
import os
import socket
import struct
from typing import Any

from common.address import Address
from netem.links.errors import LinkFailureError

# The kernel would grow its buffer to megabytes and accept from the sender more than the link has room for.
_RECEIVE_BUFFER_BYTES = 128 * 1024
# What may wait in the kernel before its turn to be sent.
_UNSENT_BYTES = 16 * 1024
_LINGER_FORMAT = "hh" if os.name == "nt" else "ii"


async def listen(address: Address) -> socket.socket:
    """A socket that accepts connections. Raises LinkFailureError where the address is not available."""
    try:
        family, resolved = (await _resolve(address))[0]
        listener = socket.create_server(resolved[:2], family=family)
    except OSError as refusal:
        raise LinkFailureError(_why_not_listening(address, refusal)) from refusal
    tune(listener)
    return listener


def free_port() -> int:
    """A port on which nothing listened a moment ago, for a program that cannot be asked to choose one itself."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def refuse(listener: socket.socket) -> None:
    """Refuses connections until `listener.listen()`, and keeps the port. On systems other than Linux connections wait
    instead."""
    address = listener.getsockname()
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
        # A port that the kernel has chosen goes back to it.
        listener.bind(address)


async def accept(listener: socket.socket) -> socket.socket:
    """The next connection, not tuned. Raises OSError where the system has no descriptor for it."""
    connection, _ = await asyncio.get_running_loop().sock_accept(listener)
    connection.setblocking(False)
    return connection


async def connect(address: Address) -> socket.socket:
    """A connection to the first of the host's addresses that answers. Raises OSError where none does."""
    last_refusal: OSError | None = None
    for family, resolved in await _resolve(address):
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            tune(connection)
            await asyncio.get_running_loop().sock_connect(connection, resolved)
        except OSError as refusal:
            connection.close()
            last_refusal = refusal
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise last_refusal or OSError(errno.EADDRNOTAVAIL, f"{address.host} has no address")


def tune_for_link(crossing: socket.socket) -> None:
    """For a connection whose packets cross the emulated link: it accepts from its sender little more than it sends.

    Its buffers stay as the system sizes them, since they bound what can be in flight on the link.
    """
    crossing.setblocking(False)
    crossing.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    crossing.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)


def reset_on_close(connection: socket.socket) -> None:
    """Makes closing this socket send a reset (RST) instead of a normal end (FIN)."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack(_LINGER_FORMAT, 1, 0))


def tune(any_socket: socket.socket) -> None:
    """For a connection outside the emulated link, between the emulator and a client or server."""
    any_socket.setblocking(False)
    any_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    any_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def _resolve(address: Address) -> list[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return [(family, resolved) for family, _, _, _, resolved in found]


def _why_not_listening(address: Address, refusal: OSError) -> str:
    if refusal.errno == errno.EADDRINUSE:
        return f"port {address.port} of {address.host} is in use: choose another, or 0 for a free one"
    return f"cannot listen on {address}: choose an address of this machine and a port that you may open"
