"""Resets a call of gRPC's asyncio server at once, whatever the client reads.

A status waits behind every message of its call, and a message waits for a window that the client may never open. gRPC's
asyncio server has no function that resets a stream, but it resets one when the call object is freed. For that both
tasks of the call must end: the one that runs the handler, and its parent, which waits for the client to leave. The
objects that remain refer to each other, so that the garbage collector has to run.
It may not know what is called.
"""

import asyncio
import gc
import weakref
from typing import Any

_COLLECT_SECONDS = 1.0
"""Delay before the garbage collection, so that many reset calls are collected together."""

_parents: "weakref.WeakKeyDictionary[asyncio.Task[Any], weakref.ref[asyncio.Task[Any]]]" = weakref.WeakKeyDictionary()
_collecting: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.TimerHandle]" = weakref.WeakKeyDictionary()


def track_task_parents(loop: asyncio.AbstractEventLoop) -> None:
    """Remembers the parent of each task from now on. Call it before the server starts."""
    loop.set_task_factory(_begin)


async def reset_call() -> None:
    """Resets the call whose handler runs in the current task, and does not return."""
    task = asyncio.current_task()
    assert task is not None
    waiting = _parents.get(task, lambda: None)()
    if waiting is not None:
        waiting.cancel()
    task.cancel()
    _collect_soon(asyncio.get_running_loop())
    await asyncio.sleep(0)


def _collect_soon(loop: asyncio.AbstractEventLoop) -> None:
    def collect() -> None:
        del _collecting[loop]
        gc.collect()

    if loop not in _collecting:
        _collecting[loop] = loop.call_later(_COLLECT_SECONDS, collect)


def _begin(loop: asyncio.AbstractEventLoop, coroutine: Any, /, **options: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, **options)
    beginner = asyncio.current_task(loop)
    if beginner is not None:
        _parents[task] = weakref.ref(beginner)
    return task
