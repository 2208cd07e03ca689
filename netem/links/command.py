"""Runs a command behind a link and returns its exit code. Knows of the link only the address of its server."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence

from common.address import Address
from common.protocol.errors import MisuseError
from netem.links import process_guard

SERVER_VARIABLE = "OUTRIDER_LINK_SERVER"
SERVER_PLACE = "{server}"
_NO_NAMESPACE = "-"
_GRACE_S = 5.0
_END_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_SIGNALLED = 128


def check_command(command: Sequence[str], has_server: bool) -> None:
    """Raises MisuseError for a command that cannot be run, before anything else is started."""
    if not command:
        raise MisuseError("there is no command to run: write it after --, such as `-- outrider chat --server {server}`")
    if shutil.which(command[0]) is None:
        raise MisuseError(f"there is no command '{command[0]}': check its spelling and your PATH")
    if not has_server and any(SERVER_PLACE in argument for argument in command):
        raise MisuseError(f"the command wants {SERVER_PLACE}, but the link leads to none: give --to HOST:PORT")


async def run_command(command: Sequence[str], server: Address | None, namespace: int | None) -> int:
    """Runs the command until it ends or this process is told to end; returns its exit code, which is 128 plus the
    signal's number for a signal.

    server: replaces {server} in the arguments, and is put into the environment. namespace: the descriptor of the
    network namespace to run in; None is the host's. On Linux nothing that the command starts outlives it.
    """
    environment = dict(os.environ)
    arguments = list(command)
    if server is not None:
        environment[SERVER_VARIABLE] = str(server)
        arguments = [argument.replace(SERVER_PLACE, str(server)) for argument in command]
    inherited: tuple[int, ...] = ()
    if sys.platform == "linux":
        place = _NO_NAMESPACE if namespace is None else str(namespace)
        inherited = () if namespace is None else (namespace,)
        arguments = [sys.executable, "-P", "-m", process_guard.__name__, place, str(os.getpid()), *arguments]
    with _termination_event() as terminated:
        process = await asyncio.create_subprocess_exec(*arguments, env=environment, pass_fds=inherited)
        try:
            code = await _until_ended(process, terminated)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return code if code >= 0 else _SIGNALLED - code


@contextlib.contextmanager
def _termination_event() -> Iterator[asyncio.Event]:
    """Set upon SIGTERM or SIGHUP. Ctrl-C is ignored here: the terminal sends it to the command too."""
    loop = asyncio.get_running_loop()
    terminated = asyncio.Event()
    before = {signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None)}
    for number in _END_SIGNALS:
        before[number] = signal.signal(number, lambda *_: loop.call_soon_threadsafe(terminated.set))
    try:
        yield terminated
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _until_ended(process: asyncio.subprocess.Process, terminated: asyncio.Event) -> int:
    """Waits for the exit code. Once `terminated` is set it terminates the process, and kills it after 5 s."""
    ended = asyncio.create_task(process.wait())
    waiting = asyncio.create_task(terminated.wait())
    await asyncio.wait((ended, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not ended.done():
        process.terminate()
        await asyncio.wait((ended,), timeout=_GRACE_S)
        if not ended.done():
            process.kill()
    return await ended
