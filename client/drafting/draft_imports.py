"""Imports what a draft model needs in a thread of its own, while a connection is being made: torch alone takes seconds.

May know draft kinds. It may not know connections.
"""

import asyncio
import gc
from contextlib import suppress
from threading import Thread

from common.drafters.load import import_kind


def begin_imports(kind: str) -> asyncio.Future[None]:
    """Done when everything is imported. An import that fails is repeated when it is needed, and raises there."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def work() -> None:
        _import(kind)
        with suppress(RuntimeError):  # the loop is closed, and nothing waits any more
            loop.call_soon_threadsafe(finish)

    # Not by `asyncio.to_thread`: the loop waits for its threads before it closes, which would delay an error.
    Thread(target=work, name="imports").start()
    return done


def _import(kind: str) -> None:
    # Garbage collection takes a tenth of the time, and finds nothing: what modules define lives as long as the program.
    gc.disable()
    try:
        import_kind(kind)
    except Exception:
        return
    finally:
        gc.enable()
        gc.freeze()
