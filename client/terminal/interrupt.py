"""Ctrl-C during an answer: once to stop it, once more to leave. Knows nothing of what is being answered."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import TypeVar

_GRACE_S = 2.0

Result = TypeVar("Result")


async def until_interrupted(work: Coroutine[None, None, Result], stop: Callable[[], None]) -> Result | None:
    """What `work` returns, which the first Ctrl-C asks to end by `stop`.

    None if the work was abandoned: at the second Ctrl-C, or because it had not ended 2 s after the first.
    """
    loop = asyncio.get_running_loop()
    working = loop.create_task(work)
    deadline: list[asyncio.TimerHandle] = []

    def interrupt() -> None:
        if deadline:
            working.cancel()
            return
        deadline.append(loop.call_later(_GRACE_S, working.cancel))
        stop()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        await asyncio.wait([working])
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        for timer in deadline:
            timer.cancel()
    return None if working.cancelled() else working.result()
