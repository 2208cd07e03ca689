"""The server of a tortured run: a process that may be killed at any time, and the spare that then takes its place.

Knows processes and addresses, not what is asked of them.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from client.demo.children import Child
from common.address import Address, parse_destination

Start = Callable[[], AbstractAsyncContextManager[Child]]


class Servers:
    """Children live until `stack` ends. `lead_to` is told where the server is, at first and after each kill."""

    def __init__(self, stack: AsyncExitStack, start: Start, lead_to: Callable[[Address], None]):
        self.kills = 0
        self._stack = stack
        self._start = start
        self._lead_to = lead_to
        self._changing = asyncio.Lock()

    async def begin(self) -> Address:
        self._server = await self._stack.enter_async_context(self._start())
        self._spare = await self._stack.enter_async_context(self._start())
        address = parse_destination(await self._server.ready())
        self._lead_to(address)
        return address

    @property
    def is_down(self) -> bool:
        return self._changing.locked()

    async def kill(self, seconds: float) -> None:
        """Returns when the spare has taken over, after `seconds` at least. Not while it is down."""
        async with self._changing:
            self.kills += 1
            self._server.kill()
            await asyncio.sleep(seconds)
            self._lead_to(parse_destination(await self._spare.ready()))
            self._server = self._spare
            self._spare = await self._stack.enter_async_context(self._start())

    async def end(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The last words of the server, and of a spare that nobody has asked anything."""
        async with self._changing:
            await self._spare.ready()
            await self._spare.stop()
            await self._server.stop()
        return self._server.summary(), self._spare.summary()
