"""`outrider-lab proxy`: runs an emulated link in front of a server until SIGINT or SIGTERM.

SIGUSR1 cuts the link and SIGUSR2 restores it, where the backend can (proxy and tun).
"""

import asyncio
import signal
from collections.abc import Callable

import typer

from netem.links.backends import LinkRequest, choose_backend, find_backend
from netem.links.proxy import Proxy
from netem.links.tun import TunLink

_CUT, _RESTORE = "SIGUSR1", "SIGUSR2"  # not every system has them


async def serve_link(backend: str, request: LinkRequest) -> None:
    """Prints `ready on HOST:PORT` on stderr when clients may connect."""
    interrupted = asyncio.Event()
    _upon("SIGINT", interrupted.set)
    _upon("SIGTERM", interrupted.set)
    async with find_backend(await choose_backend(backend))(request) as running:
        if isinstance(running, Proxy | TunLink):
            _upon(_CUT, running.cut)
            _upon(_RESTORE, running.restore)
        typer.echo(f"ready on {running.address}", err=True)
        await interrupted.wait()


def _upon(name: str, act: Callable[[], None]) -> None:
    number = getattr(signal, name, None)
    if number is not None:
        loop = asyncio.get_running_loop()
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(act))
