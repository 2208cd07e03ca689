"""The command line of `outrider-lab`: reads arguments and calls what does the work.

It neither measures nor emulates. Commands import what they need when they run, so that --help is quick.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from common.programs.command_line import FAILURE, Version, exit_with, new_app
from common.programs.command_line import run as run_command_line

if TYPE_CHECKING:
    from netem.links.profile import LinkProfile


UNFINISHED = 3
"""The exit code of a command that is to be called again."""

MOST_SEED = 2**32 - 1
"""Experiments multiply seeds by the number of what they draw, and seeds of noise have 64 bits."""

app = new_app(
    "Run Outrider, or anything that speaks TCP, over links that are worse than yours.",
)


ProfileName = Annotated[str, typer.Argument(metavar="PROFILE", help="`outrider-lab profiles` lists them.")]
UpTrace = Annotated[Path | None, typer.Option("--up-trace", metavar="FILE", help="A Mahimahi trace as rate upwards.")]
DownTrace = Annotated[Path | None, typer.Option("--down-trace", metavar="FILE", help="The same, downwards.")]
Congestion = Annotated[
    str | None,
    typer.Option("--congestion", metavar="NAME", help="TCP's, such as cubic, bbr or reno; else the system's."),
]


@app.callback()
def lab(version: Version = False) -> None:
    pass


@app.command()
def profiles() -> None:
    """List the link profiles."""
    from netem.commands.profiles import show_profiles

    show_profiles()


@app.command()
def proxy(
    profile: ProfileName,
    to: Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="Where the server listens.")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where clients connect; port 0 picks a free one.")
    ] = "127.0.0.1:0",
    backend: Annotated[str, typer.Option("--backend", metavar="NAME", help="proxy, or as root tun or tc.")] = "proxy",
    congestion: Congestion = None,
    up_trace: UpTrace = None,
    down_trace: DownTrace = None,
) -> None:
    """Put an emulated link in front of a server, until interrupted."""
    import asyncio

    from common.address import parse_address, parse_destination
    from netem.commands.proxy import serve_link
    from netem.links.backends import LinkRequest

    link = _profile(profile, up_trace, down_trace)
    asyncio.run(serve_link(backend, LinkRequest(link, parse_destination(to), parse_address(listen), congestion)))


@app.command()
def link(
    profile: ProfileName,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND...", help="What runs behind the link.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="HOST:PORT", help="The server behind the link: {server} in COMMAND, OUTRIDER_LINK_SERVER."
        ),
    ] = None,
    backend: Annotated[
        str, typer.Option("--backend", metavar="NAME", help="tun, tc, proxy, or auto: tun if it works, else proxy.")
    ] = "auto",
    congestion: Congestion = None,
    up_trace: UpTrace = None,
    down_trace: DownTrace = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="DIR", help="Write what came out of the link as traces.")
    ] = None,
) -> None:
    """Run a command behind an emulated link. The exit code is the command's."""
    import asyncio

    from common.address import parse_destination
    from netem.commands.link import run_behind_link
    from netem.links.backends import LinkRequest

    request = LinkRequest(
        _profile(profile, up_trace, down_trace),
        None if to is None else parse_destination(to),
        congestion=congestion,
        record=record is not None,
    )
    raise typer.Exit(asyncio.run(run_behind_link(backend, request, command or [], record)))


@app.command()
def calibrate(
    profile: ProfileName,
    backend: Annotated[
        str, typer.Option("--backend", metavar="NAME", help="tun, proxy, or auto: tun if it works.")
    ] = "auto",
    congestion: Congestion = None,
    up_trace: UpTrace = None,
    down_trace: DownTrace = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object on stdout.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A first look, with fewer pings than jitter needs.")] = False,
) -> None:
    """Measure what a link gives, beside what its profile promises."""
    import asyncio

    from netem.commands.calibrate import show_calibration

    link = _profile(profile, up_trace, down_trace)
    if not asyncio.run(show_calibration(link, backend, congestion, quick, as_json)):
        exit_with("outrider-lab", f"{link.name} does not keep what it promises here; is the machine busy?", FAILURE)


@app.command()
def trace(
    profile: ProfileName,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Gets up.trace and down.trace.")],
    seconds: Annotated[int, typer.Option("--seconds", min=1, max=3600, help="How long until the trace repeats.")] = 60,
    drive: Annotated[
        int | None, typer.Option("--drive", metavar="SEED", help="Let the rate wander as on a drive.")
    ] = None,
) -> None:
    """Write what a link offers, outages included, as Mahimahi traces."""
    from netem.links.generate import traces_of
    from netem.links.mahimahi import write_traces

    write_traces(out, *traces_of(_profile(profile, None, None), seconds, drive))


@app.command()
def demo(
    profile: ProfileName,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Gets one JSON object.")],
    prompts: Annotated[int, typer.Option("--prompts", min=1, help="How many prompts each system answers.")] = 3,
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=1, help="Of an answer.")] = 160,
    seed: Annotated[int, typer.Option("--seed", help="Chooses the prompts.")] = 0,
    cost_factor: Annotated[
        float, typer.Option("--cost-factor", min=1, max=1000, help="All stated costs times this.")
    ] = 1.0,
    models: Annotated[
        Path | None, typer.Option("--models", help="A folder with target, draft and prompts.jsonl instead.")
    ] = None,
) -> None:
    """Answer the prompts of `outrider demo` on the virtual clock."""
    import json

    link = _profile(profile, None, None)
    from common.stated_costs import STATED
    from netem.experiments.speed.demo import compare_virtually

    out.parent.mkdir(parents=True, exist_ok=True)
    result = compare_virtually(models, link, prompts, max_new_tokens, seed, STATED.times(cost_factor))
    out.write_text(json.dumps(result), encoding="utf-8")


@app.command("list")
def list_experiments() -> None:
    """List the experiments."""
    from common.programs.console import PlainConsole
    from common.programs.fitted_table import fitted_table
    from netem.experiments.catalogue import EXPERIMENTS

    console = PlainConsole()
    rows = [(experiment.name, experiment.description) for experiment in EXPERIMENTS.values()]
    width = console.width if console.is_terminal else sys.maxsize
    typer.echo("\n".join(fitted_table(("experiment", "what it measures"), rows, width)))


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="`outrider-lab list` shows them.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Gets results.json, table.md and plot.png.")],
    quick: Annotated[bool, typer.Option("--quick", help="Within three minutes, for a first look.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=MOST_SEED, help="Chooses the prompts.")] = 0,
    data: Annotated[Path | None, typer.Option("--data", help="The folder of public evaluation files.")] = None,
    models: Annotated[
        Path | None, typer.Option("--models", help="A folder with target, drafts and prompts.jsonl; else the shipped.")
    ] = None,
    draft: Annotated[
        list[str] | None,
        typer.Option("--draft", metavar="NAME[:N]", help="A draft in that folder, of depth N; repeat it. Else all."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="NAME", help="Of an experiment with several targets; repeat it. Else all."),
    ] = None,
    apps: Annotated[
        list[Path] | None,
        typer.Option("--apps", metavar="DIR", help="An environment or folder of programs with apps; repeat it."),
    ] = None,
    llama_server: Annotated[
        Path | None, typer.Option("--llama-server", metavar="FILE", help="llama.cpp's server; else the one on PATH.")
    ] = None,
    device: Annotated[str, typer.Option(help="Of the target: cpu or cuda, for experiments that run on both.")] = "cpu",
) -> None:
    """Run an experiment and write its results."""
    from common.programs.extras import require_extra
    from netem.experiments.catalogue import find_experiment
    from netem.experiments.experiment import Request

    chosen = find_experiment(experiment)
    require_extra("lab", "an experiment")
    from netem.commands.run import run_experiment

    chosen_parts = tuple(draft or ()), tuple(target or ()), tuple(apps or ())
    request = Request(seed, quick, data, models, *chosen_parts, llama_server, device)
    if not run_experiment(chosen, request, out):
        exit_with("outrider-lab", f"the run is not valid; {out / 'table.md'} says why", FAILURE)


@app.command()
def plot(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="What `outrider-lab run` wrote, with a results.json.")
    ],
) -> None:
    """Draw the plots of kept results again, without running anything."""
    from common.programs.extras import require_extra

    require_extra("lab", "a plot")
    from netem.commands.plot import draw_again

    draw_again(folders)


@app.command()
def page(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Has the folders of results; gets index.html.")],
) -> None:
    """Make one page of kept results. It has plots, tables that sort, and where each comes from."""
    from common.programs.extras import require_extra

    require_extra("lab", "the page")
    from netem.commands.page import write_page

    write_page(folder)


@app.command("figures")
def refresh_figures(
    documents: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Markdown whose figures name results.")],
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a figure is out of date.")] = False,
) -> None:
    """Write the figures of documents anew from results that they name."""
    from netem.commands.figures import refresh_documents

    if refresh_documents(documents, check) and check:
        exit_with("outrider-lab", "figures are out of date; run it without --check", FAILURE)


@app.command("results")
def run_all(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Gets a folder for each experiment.")],
    only: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="These folders only. Else all.")] = None,
    data: Annotated[Path | None, typer.Option("--data", help="The folder of public evaluation files.")] = None,
    apps: Annotated[
        list[Path] | None, typer.Option("--apps", metavar="DIR", help="An environment with apps; repeat it.")
    ] = None,
    ablation: Annotated[
        Path | None, typer.Option("--ablation", metavar="DIR", help="Draft models that differ in one part each.")
    ] = None,
    seeds: Annotated[
        Path | None, typer.Option("--seeds", metavar="DIR", help="Families trained from other seeds, by seed.")
    ] = None,
    llama_server: Annotated[
        Path | None, typer.Option("--llama-server", metavar="FILE", help="llama.cpp's server.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Run again what comes from another commit or other models.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Untimed experiments at a time.", show_default="one for each core")
    ] = None,
) -> None:
    """Run every experiment in its full form, from one commit. What is finished is kept."""
    import os

    from common.programs.extras import require_extra

    require_extra("lab", "an experiment")
    from netem.commands.results import make_results
    from netem.experiments.experiment import APPS, DATA, LLAMA_SERVER
    from netem.experiments.kept_runs import ABLATION, RUNS, SEEDS

    single = {DATA: data, ABLATION: ablation, SEEDS: seeds, LLAMA_SERVER: llama_server}
    outside = {APPS: apps or []} | {option: [path] if path else [] for option, path in single.items()}
    if not make_results(RUNS, out, outside, replace, only or (), jobs=jobs or os.cpu_count() or 1):
        exit_with("outrider-lab", f"not every result in {out} is there and valid", FAILURE)


@app.command("gpu")
def run_gpu(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Gets a folder for each experiment, and summary.md.")
    ],
    minutes: Annotated[
        float | None, typer.Option(min=1, help="Of the whole; what other parts leave, a target trains. [default: 25]")
    ] = None,
    call_minutes: Annotated[
        float | None,
        typer.Option(min=0.1, help="End this call by then; called again, it goes on. [default: (when all is done)]"),
    ] = None,
    rehearse: Annotated[bool, typer.Option("--rehearse", help="All of it in small, on the CPU, in minutes.")] = False,
) -> None:
    """Run the tests and experiments that need a GPU. What is finished is kept. Exits with 3 where parts are left."""
    import math
    from dataclasses import replace

    from common.models.placement import parse_device
    from common.programs.extras import require_extra
    from netem.experiments.gpu_parts import GPU, REHEARSAL, USABLE, make_parts

    require_extra("lab", "an experiment")
    from netem.commands.gpu import ROOT, run_parts

    scale = REHEARSAL if rehearse else GPU
    scale = scale if minutes is None else replace(scale, minutes=minutes)
    parse_device(scale.device)
    parts = make_parts(scale, out.resolve(), out.resolve().with_name(f"{out.name}.work"), ROOT)
    kept = run_parts(parts, out, math.inf if call_minutes is None else 60 * call_minutes, rehearsed=rehearse)
    typer.echo((out / "summary.md").read_text(encoding="utf-8"))
    if len(kept.states) < len(parts):
        exit_with("outrider-lab", "not all parts have run; the same command goes on with them", UNFINISHED)
    if not set(kept.states.values()) <= set(USABLE[:1]):
        exit_with("outrider-lab", f"not every part ended well; {out / 'summary.md'} says why", FAILURE)


def _profile(name: str, up_trace: Path | None, down_trace: Path | None) -> "LinkProfile":
    from netem.links.mahimahi import with_traces
    from netem.links.profiles import find_profile

    return with_traces(find_profile(name), up_trace, down_trace)


def main() -> NoReturn:
    """Run the command line and exit."""
    run_command_line(app, "outrider-lab")
