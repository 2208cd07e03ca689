"""`outrider-lab proxy`: a link in front of a server, until somebody ends it."""

import asyncio
import signal

import typer

from netem.links.backends import Wanted, choose_backend, find_backend


async def serve_link(backend: str, wanted: Wanted) -> None:
    """Says `ready on HOST:PORT` on stderr when clients may connect."""
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(interrupted.set))
    async with find_backend(await choose_backend(backend))(wanted) as running:
        typer.echo(f"ready on {running.address}", err=True)
        await interrupted.wait()
