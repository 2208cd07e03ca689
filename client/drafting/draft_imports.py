"""Imports what a draft runs on in a thread of its own, while a connection is being made: torch alone takes seconds.

May know kinds of drafts. It may not know what is connected to.
"""

import asyncio
import gc
from contextlib import suppress
from threading import Thread

from common.drafters.load import import_kind


def begin_imports(kind: str) -> asyncio.Future[None]:
    """Done when everything is imported. What cannot be is imported again when it is used, and complains then."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not done.done():
            done.set_result(None)

    def work() -> None:
        _import(kind)
        with suppress(RuntimeError):  # the loop is closed: whoever waited has failed
            loop.call_soon_threadsafe(tell)

    # Not by `asyncio.to_thread`, for which a failure would have to wait before it can be told.
    Thread(target=work, name="imports").start()
    return done


def _import(kind: str) -> None:
    # What modules define lives as long as the program: looking for garbage in it takes a tenth of the time.
    gc.disable()
    try:
        import_kind(kind)
    except Exception:
        return
    finally:
        gc.enable()
        gc.freeze()
