"""The command line of `outrider-lab`: reads arguments, calls the lab, turns errors into one sentence.

No measuring and no emulation here. Commands import what they need when they run, so that --help is quick.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from common.command_line import FAILURE, exit_with
from common.command_line import run as run_command_line

if TYPE_CHECKING:
    from common.address import Address
    from netem.experiments.experiment import Advance, Experiment, Report, Request
    from netem.links.profile import Direction, LinkProfile


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

    from common.address import parse_address, parse_destination
    from netem.links.profiles import find_profile

    asyncio.run(_proxy_until_interrupted(find_profile(profile), parse_destination(to), parse_address(listen)))


@app.command("list")
def list_experiments() -> None:
    """List the experiments."""
    from netem.experiments.experiment import EXPERIMENTS

    for experiment in EXPERIMENTS.values():
        typer.echo(f"{experiment.name:14} {experiment.description}")


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="`outrider-lab list` shows them.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Gets results.json, table.md and plot.png.")],
    quick: Annotated[bool, typer.Option("--quick", help="Within three minutes, for a first look.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Chooses the prompts.")] = 0,
    data: Annotated[Path | None, typer.Option("--data", help="The folder of public evaluation files.")] = None,
    models: Annotated[
        Path | None, typer.Option("--models", help="A folder with target, drafts and prompts.jsonl; else the shipped.")
    ] = None,
    draft: Annotated[
        list[str] | None,
        typer.Option("--draft", metavar="NAME[:N]", help="A draft in that folder, of depth N; repeat it. Else all."),
    ] = None,
) -> None:
    """Run an experiment and write its results."""
    import asyncio

    from netem.experiments.experiment import Request, find_experiment
    from netem.experiments.progress import progress_bar
    from netem.experiments.provenance import provenance
    from netem.experiments.report import prepare, write_report

    chosen = find_experiment(experiment)
    request = Request(seed, quick, data, models, tuple(draft or ()))
    prepare(out)
    origin = provenance(seed, chosen.checkpoints(request))
    with progress_bar(chosen.name) as advance:
        report = asyncio.run(_measure(chosen, request, advance))
    write_report(report, origin, out)
    typer.echo((out / "table.md").read_text(encoding="utf-8"))
    if report.faults:
        exit_with("outrider-lab", f"the run is not valid; {out / 'table.md'} says why", FAILURE)


async def _measure(experiment: "Experiment", request: "Request", advance: "Advance") -> "Report":
    from client.demo.children import ended_by_signals

    with ended_by_signals():
        return await experiment.run(request, advance)


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
    """Run the command line and exit."""
    run_command_line(app, "outrider-lab")
