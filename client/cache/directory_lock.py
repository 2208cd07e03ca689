"""One process at a time in a directory, so that two never write the same bundle. Knows nothing of what it holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_LOCK_FILE = ".lock"
_POLL_S = 0.1


@asynccontextmanager
async def locked(directory: Path, *, waits: bool = True) -> AsyncIterator[None]:
    """Makes the directory and holds it alone. Ends with the process too, however that ends. Raises OSError, and of its
    kinds TimeoutError at once if another process holds it and nobody `waits`."""
    from filelock import AsyncFileLock  # which takes long to import, and most starts lock nothing

    directory.mkdir(parents=True, exist_ok=True)
    timeout_s = -1 if waits else 0
    async with AsyncFileLock(directory / _LOCK_FILE, timeout_s, poll_interval=_POLL_S, run_in_executor=False):
        yield
