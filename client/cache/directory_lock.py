"""One process at a time in a directory, so that two never write the same bundle.

Where the system has no advisory locks (Windows), nobody waits: two processes that fetch at once may then refuse
each other's files as damaged, and the next attempt mends it. Knows nothing of what the directory holds.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

_POLL_SECONDS = 0.1


@asynccontextmanager
async def locked(directory: Path) -> AsyncIterator[None]:
    """Makes the directory and holds it alone. Ends with the process too, however that ends. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        await _acquire(handle)
        yield
    finally:
        os.close(handle)


async def _acquire(handle: int) -> None:
    # Asked for again and again, because a thread that waits for it could not be interrupted.
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            await asyncio.sleep(_POLL_SECONDS)
