"""Compiles clients' constraints beside the passes: a few at a time, and one of each caller, so that neither the passes,
nor other threads' work, nor other callers' constraints wait for one client's.

An asyncio shell. It may not know what compiling is, nor streams or sessions.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

AT_ONCE = 2

Compile = Callable[[Callable[[], object]], Awaitable[object]]


class ConstraintCompiler:
    def __init__(self) -> None:
        # Not asyncio's own threads, in which bundles are read and ranks are told that this one lives.
        self._threads = ThreadPoolExecutor(AT_ONCE, "constraint")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn_of(self, caller: str) -> AsyncGenerator[Compile]:
        """The caller's turn, with what does one piece of work in a thread. It lasts until that is done, even if nobody
        waits for it any more."""
        turn = self._turns.setdefault(caller, asyncio.Lock())
        await turn.acquire()
        done: asyncio.Future[object] | None = None

        async def compile_(work: Callable[[], object]) -> object:
            nonlocal done
            done = asyncio.get_running_loop().run_in_executor(self._threads, work)
            return await asyncio.shield(done)

        def ended(unheard: asyncio.Future[object]) -> None:
            if not unheard.cancelled():
                unheard.exception()  # asyncio would log one that nobody has seen, with what a client wrote
            turn.release()

        try:
            yield compile_
        finally:
            if done is None or done.done():
                turn.release()
            else:
                done.add_done_callback(ended)


def machine_of(peer: str) -> str:
    """Who calls, of a connection's address as gRPC has it: whoever has no token of its own is known by its machine."""
    return peer.rpartition(":")[0]
