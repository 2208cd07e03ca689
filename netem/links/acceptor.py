"""Accepts connections on a listening socket until `end`, which drops them all.

Knows sockets and tasks, not what is done with a connection.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine

from netem.links import sockets

_LOGGER = logging.getLogger(__name__)
_PAUSE_WHEN_OUT_OF_SOCKETS_S = 0.1

Carry = Callable[[socket.socket, int], Coroutine[None, None, None]]


class Acceptor:
    """Accepts from its construction on. Each connection is handed to `carry` in a task, with its number counted from 0,
    and closed afterwards."""

    def __init__(self, listener: socket.socket, carry: Carry) -> None:
        self._listener = listener
        self._carry = carry
        self._connections: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._accepting = asyncio.create_task(self._accept())

    def pause(self) -> None:
        """No new connection is accepted until `resume`."""
        if self._open.is_set():
            self._open.clear()
            sockets.refuse(self._listener)

    def resume(self) -> None:
        if not self._open.is_set():
            self._listener.listen()
            self._open.set()

    async def end(self) -> None:
        """Stops listening and drops all connections."""
        running = {self._accepting, *self._connections}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        accepted = 0
        while True:
            await self._open.wait()
            try:
                connection = await sockets.accept(self._listener)
            except OSError as refusal:
                if not self._open.is_set():
                    continue
                _LOGGER.warning("cannot accept a connection (%s): close some and it goes on", refusal.strerror)
                await asyncio.sleep(_PAUSE_WHEN_OUT_OF_SOCKETS_S)
                continue
            task = asyncio.create_task(self._carry_and_close(connection, accepted))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
            accepted += 1

    async def _carry_and_close(self, connection: socket.socket, number: int) -> None:
        with connection:
            await self._carry(connection, number)
