"""`outrider-lab link`: runs a command behind a link, and writes traces of what came out of the link."""

from collections.abc import Sequence
from pathlib import Path

import typer

from netem.links.backends import LinkRequest, choose_backend, find_backend
from netem.links.command import check_command, run_command
from netem.links.mahimahi import make_folder, write_traces
from netem.links.namespaces.link import NamespaceLink


async def run_behind_link(backend: str, request: LinkRequest, command: Sequence[str], record: Path | None) -> int:
    """Returns the command's exit code. record: the folder for traces of what came out of the link."""
    check_command(command, has_server=request.target is not None)
    if record is not None:
        make_folder(record)
    chosen = await choose_backend(backend)
    async with find_backend(chosen)(request) as link:
        if isinstance(link, NamespaceLink):
            typer.echo(f"behind {request.profile.name} by {chosen}, TCP with {link.congestion}", err=True)
            server = None if request.target is None else link.server
            code = await run_command(command, server, link.near_namespace)
        else:
            typer.echo(f"behind {request.profile.name} by {chosen}, where losses are stalls", err=True)
            code = await run_command(command, link.address, None)
        if record is not None and (traces := await link.traces()):
            write_traces(record, *traces)
    return code
