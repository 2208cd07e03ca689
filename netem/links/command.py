"""Runs a command behind a link and ends with its exit code. Knows the link only by where its server is found."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence

from common.address import Address
from common.protocol.errors import MisuseError
from netem.links import keeper

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
    """Runs it until it ends, or we are asked to; returns its exit code, 128 and the signal's number for a signal.

    server: what replaces {server} in its arguments, and goes into its environment. namespace: the descriptor of the
    network namespace that it runs in; None is the host's. On Linux nothing that it starts outlives it.
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
        arguments = [sys.executable, "-P", "-m", keeper.__name__, place, str(os.getpid()), *arguments]
    with _asked_to_end() as asked:
        process = await asyncio.create_subprocess_exec(*arguments, env=environment, pass_fds=inherited)
        try:
            code = await _until_ended(process, asked)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return code if code >= 0 else _SIGNALLED - code


@contextlib.contextmanager
def _asked_to_end() -> Iterator[asyncio.Event]:
    """Set when we are asked to end. Ctrl-C does not ask us: the terminal sends it to the command too."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    before = {signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None)}
    for number in _END_SIGNALS:
        before[number] = signal.signal(number, lambda *_: loop.call_soon_threadsafe(asked.set))
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _until_ended(process: asyncio.subprocess.Process, asked: asyncio.Event) -> int:
    """Passes on that we are asked to end, and makes sure of it after a while."""
    ended = asyncio.create_task(process.wait())
    asking = asyncio.create_task(asked.wait())
    await asyncio.wait((ended, asking), return_when=asyncio.FIRST_COMPLETED)
    asking.cancel()
    if not ended.done():
        process.terminate()
        await asyncio.wait((ended,), timeout=_GRACE_S)
        if not ended.done():
            process.kill()
    return await ended
