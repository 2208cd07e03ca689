"""The command line of `outrider-lab`: reads arguments, calls the lab, turns errors into one sentence.

No measuring and no emulation here. Commands import what they need when they run, so that --help is quick.
"""

import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from netem.links.address import Address
    from netem.links.profile import Direction, LinkProfile

_FAILURE = 1
_MISUSE = 2

app = typer.Typer(
    help="Run Outrider, or anything that speaks TCP, over links that are worse than yours.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def profiles() -> None:
    """List the link profiles."""
    from rich.console import Console
    from rich.table import Table

    from netem.links.profiles import PROFILES

    table = Table("profile", "up", "down", "description")
    for profile in PROFILES.values():
        table.add_row(profile.name, _in_words(profile.up), _in_words(profile.down), profile.description)
    Console().print(table)


@app.command()
def proxy(
    profile: Annotated[str, typer.Argument(help="A link profile; `outrider-lab profiles` lists them.")],
    to: Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="Where the server listens.")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where clients connect; port 0 picks a free one.")
    ] = "127.0.0.1:0",
) -> None:
    """Put an emulated link in front of a server, until interrupted."""
    import asyncio

    from netem.links.address import parse_address
    from netem.links.errors import LinkMisuseError
    from netem.links.profiles import find_profile

    target = parse_address(to)
    if target.port == 0:
        raise LinkMisuseError("--to needs the port that the server listens on: port 0 only makes sense for --listen")
    asyncio.run(_proxy_until_interrupted(find_profile(profile), target, parse_address(listen)))


async def _proxy_until_interrupted(profile: "LinkProfile", target: "Address", listen: "Address") -> None:
    import asyncio
    import signal

    from netem.links.proxy import Proxy

    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(interrupted.set))
    async with Proxy(profile, target, listen) as running:
        typer.echo(f"ready on {running.address}", err=True)
        await interrupted.wait()


def _in_words(way: "Direction") -> str:
    from netem.links.delay import mean_delay_ms

    rate = "any rate" if way.rate_bits_per_s is None else f"{way.rate_bits_per_s / 1e6:g} Mbit/s"
    if way.jitter_ms:
        return f"{rate}, {way.delay_ms:g}±{way.jitter_ms:g} ms (mean {mean_delay_ms(way):.1f})"
    return f"{rate}, {way.delay_ms:g} ms"


def main() -> NoReturn:
    """Run the command line and exit: 0 done, 1 failure, 2 misuse."""
    from netem.links.errors import LinkError, LinkMisuseError

    try:
        sys.exit(app(standalone_mode=False))
    except typer.TyperException as misuse:
        _exit_with(f"{str(misuse).rstrip('.')}; `outrider-lab --help` lists what there is", _MISUSE)
    except LinkMisuseError as misuse:
        _exit_with(str(misuse), _MISUSE)
    except LinkError as failure:
        _exit_with(str(failure), _FAILURE)


def _exit_with(sentence: str, code: int) -> NoReturn:
    typer.echo(f"outrider-lab: {sentence}", err=True)
    sys.exit(code)
