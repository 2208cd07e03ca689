"""The server of a run with faults: a process that may be killed at any time, and a spare that then takes its place.

Knows processes and addresses, not the requests to them.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from client.demo.children import Child
from common.address import Address, parse_destination

StartServer = Callable[[], AbstractAsyncContextManager[Child]]


class ServerWithSpare:
    """Processes live until `stack` ends. redirect: called with the server's address, at first and after each kill."""

    def __init__(self, stack: AsyncExitStack, start: StartServer, redirect: Callable[[Address], None]):
        self.kills = 0
        self._stack = stack
        self._start = start
        self._redirect = redirect
        self._changing = asyncio.Lock()

    async def begin(self) -> Address:
        """Starts both processes; returns the server's address."""
        self._server = await self._stack.enter_async_context(self._start())
        self._spare = await self._stack.enter_async_context(self._start())
        address = parse_destination(await self._server.ready())
        self._redirect(address)
        return address

    @property
    def is_down(self) -> bool:
        return self._changing.locked()

    async def kill(self, away_s: float) -> None:
        """Returns when the spare has taken over, after at least away_s. Do not call it while the server is down."""
        async with self._changing:
            self.kills += 1
            self._server.kill()
            await asyncio.sleep(away_s)
            self._redirect(parse_destination(await self._spare.ready()))
            self._server = self._spare
            self._spare = await self._stack.enter_async_context(self._start())

    async def end(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Stops both; returns the final counters of the server, and of the spare, which has had no requests."""
        async with self._changing:
            await self._spare.ready()
            await self._spare.stop()
            await self._server.stop()
        return self._server.summary(), self._spare.summary()
