"""One process at a time in a directory, so that two never write the same bundle. Knows nothing of what it holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_LOCK_FILE = ".lock"
_POLL_S = 0.1


@asynccontextmanager
async def locked(directory: Path) -> AsyncIterator[None]:
    """Makes the directory and holds it alone. Ends with the process too, however that ends. Raises OSError."""
    from filelock import AsyncFileLock  # which takes long to import, and most starts lock nothing

    directory.mkdir(parents=True, exist_ok=True)
    async with AsyncFileLock(directory / _LOCK_FILE, poll_interval=_POLL_S, run_in_executor=False):
        yield
