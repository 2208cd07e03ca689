"""Compiles clients' constraints beside the passes: a few at a time, and one of each caller, so that neither the passes,
nor other threads' work, nor other callers' constraints wait for one client's.

An asyncio shell. It may not know what compiling is, nor streams or sessions.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

AT_ONCE = 2

_Compiled = TypeVar("_Compiled")


class ConstraintCompiler:
    def __init__(self) -> None:
        # Not asyncio's own threads, in which bundles are read and ranks are told that this one lives.
        self._threads = ThreadPoolExecutor(AT_ONCE, "constraint")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def compile(self, caller: str, work: Callable[[], _Compiled]) -> _Compiled:
        """What `work` returns or raises, in a thread and in the caller's turn. The turn lasts until the work is done,
        even if nobody waits for it any more."""
        turn = self._turns.setdefault(caller, asyncio.Lock())
        await turn.acquire()
        done = asyncio.get_running_loop().run_in_executor(self._threads, work)
        done.add_done_callback(lambda _: turn.release())
        return await asyncio.shield(done)


def machine_of(peer: str) -> str:
    """Who calls, of a connection's address as gRPC has it: whoever has no token of its own is known by its machine."""
    return peer.rpartition(":")[0]
