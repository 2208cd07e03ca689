"""`outrider demo`: the shipped models behind an emulated link, each system answering the same prompts in turn, or the
page of `outrider serve` with a switch that cuts the link."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from client.answering import AnswerOptions
from client.conversation import Answer
from client.demo.children import ended_by_signals, running
from client.demo.comparison import Answers, Comparison, compare, rotations
from client.demo.family import choose_prompts, find_family
from client.demo.lanes import Lane, lanes
from client.demo.switch import LinkSwitch
from client.draft_loader import DraftChoice
from client.errors import DemoError
from client.link import Access
from client.offline import Offline
from client.policies import CLOUD, LOCKSTEP, STREAM, Policy
from client.progress import download_bar
from client.render import AnswerView, NoPaper, paper_for
from common.address import Address, parse_destination
from common.console import PlainConsole
from common.stated_costs import DRAFT_SECONDS, HALF_THE_CORES, IN_WORDS

# Lock-step at its best for these models, by the sweep of `outrider-lab run streaming`.
_BEST_ROUND_LEVELS = 16

# Slower than what speeds are measured at: somebody is to follow it, and to reach for the switch in time.
_PAGE_COSTS = ("--pace-pass", "100ms", "--pace-token", "0.1ms", "--pace-draft", "5ms")
_PAGE_LEVEL_SECONDS = 0.015
_PAGE_TOKENS = 1024
_PAGE_SEATS = 4

SYSTEMS: Mapping[str, Policy] = {
    "cloud": CLOUD,
    "lockstep": replace(LOCKSTEP, round_levels=_BEST_ROUND_LEVELS),
    "outrider": STREAM,
}


@dataclass(frozen=True, slots=True)
class DemoOptions:
    prompts: int
    max_new_tokens: int
    profile: str
    seed: int
    models: Path | None = None  # a folder with target, draft and prompts.jsonl; None for what is shipped


async def demo(options: DemoOptions, *, as_json: bool) -> None:
    """Shows every answer as it comes, then a table; or prints one JSON object.

    Raises DemoError after that where the systems' answers differ.
    """
    console = PlainConsole(quiet=as_json)
    family = find_family(options.models)
    prompts = choose_prompts(family.prompts, options.prompts, options.seed)
    systems = {
        name: AnswerOptions(policy, options.max_new_tokens, pace=DRAFT_SECONDS) for name, policy in SYSTEMS.items()
    }
    console.print("starting a server for each system", style="dim")
    with ended_by_signals():
        async with lanes(family, options.profile, systems, download_bar) as opened:
            answers = await _answer_all(opened, prompts, console)
    comparison = compare(answers, {name: lane.server.summary() for name, lane in opened.items()})
    if as_json:
        typer.echo(json.dumps(comparison.as_dict()))
    else:
        console.print(result_table(comparison, f"{len(prompts)} of the demo's prompts over {options.profile}"))
        for overrun in comparison.overruns:
            console.print(f"{overrun}: these speeds do not count; run the demo on an idler machine.")
    if not comparison.identical:
        raise DemoError("the systems' answers differ, which must never happen; please report it with the prompts")


async def demo_page(profile: str, models: Path | None, listen: Address) -> None:
    """Serves the page until SIGINT, as `outrider serve` does, with a switch for the link."""
    # Which brings the HTTP server along, and is of no use to the comparison.
    from client.commands.serve import Listening, bind, serve
    from client.endpoint.service import Manner, WhenOffline

    bind(listen).close()  # fails now where it cannot be had
    family = find_family(models)
    # By its name, which the page shows, where it has one.
    target = ("--target", "demo") if models is None else ("--target", str(family.target), "--draft", str(family.draft))
    threads, listening = ("--threads", str(HALF_THE_CORES)), Listening(listen, _PAGE_SEATS, None)
    manner = Manner(AnswerOptions(STREAM, _PAGE_TOKENS, pace=_PAGE_LEVEL_SECONDS), None, WhenOffline.ANSWER)
    with ended_by_signals():
        async with AsyncExitStack() as stack:
            cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-demo-")))
            outriderd = running("outriderd", "serve", *target, *threads, "--listen", "127.0.0.1:0", *_PAGE_COSTS)
            server = await stack.enter_async_context(outriderd)
            proxy = running("outrider-lab", "proxy", profile, "--to", await server.ready())
            link = await stack.enter_async_context(proxy)
            access, choice = Access(parse_destination(await link.ready())), DraftChoice(threads=HALF_THE_CORES)
            await serve(access, choice, cache, manner, Offline(), listening, LinkSwitch(link))


async def _answer_all(lanes: Mapping[str, Lane], prompts: Sequence[str], console: Console) -> Answers:
    answers: dict[str, list[Answer]] = {name: [] for name in lanes}
    for prompt, order in zip(prompts, rotations(tuple(lanes), len(prompts)), strict=True):
        console.print(f"\n{prompt}", style="bold", markup=False, highlight=False)
        for name in order:
            console.rule(name, align="left", style="dim")
            paper = NoPaper() if console.quiet else paper_for(console, time.monotonic)
            view = AnswerView(lanes[name].client.tokenizer, paper)
            try:
                answers[name].append(await lanes[name].ask(prompt, view))
            finally:
                view.end()
    return answers


def result_table(comparison: Comparison, title: str) -> Table:
    """Within 80 columns, headings whole."""
    same = "all answers identical" if comparison.identical else "ANSWERS DIFFER"
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 0),
        title=f"{title}: {same}",
        caption=f"{IN_WORDS}; late: took longer",
    )
    table.add_column("system", no_wrap=True)
    headings = ("tokens/s", "speed", "first\ntoken", "first\nratio", "tokens\n/pass", "passes", "kB up", "kB\ndown")
    for heading in (*headings, "late\npasses", "late\nlevels"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, compared in comparison.systems.items():
        stats = compared.stats
        table.add_row(
            name,
            f"{stats.tokens_per_second:.1f}",
            f"{compared.speed_up:.2f}x",
            f"{stats.ttft_seconds * 1000:.0f} ms",
            f"{compared.ttft_ratio:.2f}x",
            f"{stats.accept_length:.2f}",
            str(stats.passes),
            f"{stats.bytes_up / 1000:.1f}",
            f"{stats.bytes_down / 1000:.1f}",
            f"{compared.overrun_passes:.1%}",
            f"{compared.overrun_levels:.1%}",
        )
    return table
