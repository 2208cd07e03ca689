"""Servers that the demo and experiments start as their children, forked as `tests.programs` forks programs: each would
import torch and transformers otherwise, which takes longer than what most tests ask of it.

How a command is started and found, and that it dies with its parent, is left out; `tests/client/demo/test_children.py`
has that.
"""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from client.demo.children import installed
from common.programs import die_with_parent
from tests.programs import Program

_start_process = asyncio.create_subprocess_exec


async def start_forked(*words: str, env: dict[str, str] | None = None, **streams: Any) -> Any:
    """In place of `asyncio.create_subprocess_exec`: what is no server of ours starts as ever."""
    module, program, *arguments = words[3:] if len(words) > 4 else ("", "")
    if module != die_with_parent.__name__ or program != str(installed("outriderd")):
        return await _start_process(*words, env=env, **streams)
    forked = Program("outriderd", *arguments, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, environment=env)
    written = asyncio.StreamReader()
    reading = asyncio.StreamReaderProtocol(written)
    await asyncio.get_running_loop().connect_read_pipe(lambda: reading, forked.stderr)
    return ForkedProcess(forked, written)


class ForkedProcess:
    """As much of `asyncio.subprocess.Process` as children need."""

    def __init__(self, program: Program, stderr: asyncio.StreamReader):
        self.pid, self.stderr = program.pid, stderr
        # Not of the loop's own threads, of which there are few on few cores: servers would take them all.
        waiting = ThreadPoolExecutor(1)
        self._ended = asyncio.get_running_loop().run_in_executor(waiting, program.wait)

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def send_signal(self, number: int) -> None:
        if self._ended.done():
            raise ProcessLookupError
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
