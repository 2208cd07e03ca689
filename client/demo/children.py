"""Outrider's other commands as child processes, which say when they are ready and never outlive us."""

import asyncio
import json
import shutil
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from client.errors import DemoError

_READY = "ready on "
_SUMMARY = "summary "
_START_SECONDS = 180.0
_STOP_SECONDS = 10.0
_LAST_LINES = 5


class Child:
    """A command that runs. What it writes to stderr is kept in part, and read to the end so that it never blocks."""

    def __init__(self, command: str, process: asyncio.subprocess.Process):
        self.address = ""  # HOST:PORT on which it is ready
        self._command = command
        self._process = process
        self._said: deque[str] = deque(maxlen=_LAST_LINES)

    def summary(self) -> dict[str, Any]:
        """The counters that the command wrote when it ended. Raises DemoError where it wrote none."""
        for line in self._said:
            if line.startswith(_SUMMARY):
                return dict(json.loads(line.removeprefix(_SUMMARY)))
        raise DemoError(f"{self._command} ended without its summary; run it alone to see why")

    async def become_ready(self) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not self.address:
                    await self._read_line()
        except TimeoutError as error:
            raise DemoError(f"{self._command} was not ready within {_START_SECONDS:.0f} s; try again later") from error

    async def stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._drain()
        except TimeoutError:
            self._process.kill()
        await self._process.wait()

    async def _drain(self) -> None:
        with suppress(DemoError):
            while True:
                await self._read_line()

    async def _read_line(self) -> None:
        assert self._process.stderr is not None
        line = (await self._process.stderr.readline()).decode(errors="replace")
        if not line:
            last_words = self._said[-1].removeprefix(f"{self._command}: ") if self._said else "it said nothing"
            raise DemoError(f"{self._command} did not start: {last_words}")
        self._said.append(line.strip())
        if line.startswith(_READY):
            self.address = line.removeprefix(_READY).strip()


@asynccontextmanager
async def serving(command: str, *arguments: str) -> AsyncIterator[Child]:
    """Runs a command until the block ends; it is ready when the block begins.

    Raises DemoError where it does not become ready.
    """
    program = shutil.which(command, path=Path(sys.executable).parent)
    if program is None:
        raise DemoError(f"{command} is not installed beside {sys.executable}; run `make install`")
    process = await asyncio.create_subprocess_exec(
        *(program, *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    child = Child(command, process)
    try:
        await child.become_ready()
        yield child
    finally:
        await child.stop()
