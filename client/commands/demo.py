"""`outrider demo`: the shipped models behind an emulated link, each system answering the same prompts in turn, and a
table of the same on the virtual clock; or the page of `outrider serve` with a switch that cuts the link."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from client.answer import Answer
from client.answering import AnswerOptions
from client.demo.children import LinkSwitch, ended_by_signals, running
from client.demo.comparison import Answers, ComparedSystem, Comparison, compare, is_identical, rotations
from client.demo.family import choose_prompts, find_family
from client.demo.systems_under_test import SystemUnderTest, systems, systems_under_test
from client.demo.virtual import compare_virtually
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.errors import DemoError
from client.link.offline import OfflineOptions
from client.link.stream import Access
from client.terminal.progress import share_bar
from client.terminal.render import AnswerView, SilentRenderer, renderer_for
from common.address import Address, parse_destination
from common.bundle import BundleManifest
from common.programs.console import PlainConsole
from common.stated_costs import HALF_THE_CORES, STATED, StatedCosts

# Slower than what speeds are measured at: somebody is to follow it, and to reach for the switch in time.
_PAGE_COSTS = ("--pace-pass", "100ms", "--pace-token", "0.1ms", "--pace-draft", "5ms")
_PAGE_LEVEL_SECONDS = 0.015
_PAGE_TOKENS = 1024
_PAGE_SEATS = 4


@dataclass(frozen=True, slots=True)
class DemoOptions:
    prompts: int
    max_new_tokens: int
    profile: str
    seed: int
    cost_factor: float  # on all stated costs, on both clocks
    models: Path | None = None  # a folder with target, draft and prompts.jsonl; None for what is shipped


@dataclass(frozen=True, slots=True)
class Shown:
    """The systems on the virtual clock, whose figures count, and in real time on this machine."""

    virtual: Comparison
    real: Comparison
    identical: bool  # every system answered every prompt with the same tokens, on both clocks
    costs: StatedCosts
    virtual_costs: Mapping[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.virtual.as_dict(),
            "identical": self.identical,
            "clock": "virtual",
            "stated_costs": dict(self.virtual_costs),
            "real_time": {**self.real.as_dict(), "kept_stated_costs": not self.real.overruns},
        }


async def demo(options: DemoOptions, *, as_json: bool) -> None:
    """Shows every answer as it comes, then a table; or prints one JSON object.

    Answers come in real time, where a busy machine is late; the table's figures are the virtual clock's, which no
    machine is too busy for. Raises DemoError after that if the systems' answers differ.
    """
    console = PlainConsole(quiet=as_json)
    family = find_family(options.models)
    prompts = choose_prompts(family.prompts, options.prompts, options.seed)
    costs = STATED.times(options.cost_factor)
    wanted = systems(options.max_new_tokens, costs)
    with ended_by_signals():
        console.print("starting a server for each system, which takes up to half a minute", style="dim")
        async with AsyncExitStack() as stack:
            with share_bar("starting") as advance:
                opening = systems_under_test(family, options.profile, costs, wanted, _unseen_download, advance)
                opened = await stack.enter_async_context(opening)
            answers = await _answer_all(opened, prompts, console)
        console.print("\ncomputing the same on a virtual clock, which no other work slows down", style="dim")
        with share_bar("computing"):
            virtual = await compare_virtually(
                options.models,
                options.profile,
                options.prompts,
                options.max_new_tokens,
                options.seed,
                options.cost_factor,
            )
    shown = Shown(
        compare(virtual.answers, virtual.counters),
        compare(answers, {name: system.server.summary() for name, system in opened.items()}),
        is_identical([*answers.values(), *virtual.answers.values()]),
        costs,
        virtual.stated_costs,
    )
    if as_json:
        typer.echo(json.dumps(shown.as_dict()))
    else:
        console.print(result_table(shown, f"{len(prompts)} of the demo's prompts over {options.profile}"))
    if not shown.identical:
        raise DemoError("the systems' answers differ, which must never happen; please report it with the prompts")


def _unseen_download(_: BundleManifest) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda in_place: None)


async def demo_page(profile: str, models: Path | None, listen: Address) -> None:
    """Serves the page until SIGINT, as `outrider serve` does, with a switch for the link."""
    # Which brings the HTTP server along, and is of no use to the comparison.
    from client.commands.serve import Listening, bind, serve
    from client.endpoint.service import EndpointDefaults, WhenOffline

    bind(listen).close()  # fails now if it cannot be had
    family = find_family(models)
    # By its name, which the page shows, if it has one.
    target = ("--target", "demo") if models is None else ("--target", str(family.target), "--draft", str(family.draft))
    threads, listening = ("--threads", str(HALF_THE_CORES)), Listening(listen, _PAGE_SEATS, None)
    defaults = EndpointDefaults(AnswerOptions(STREAM, _PAGE_TOKENS, pace=_PAGE_LEVEL_SECONDS), None, WhenOffline.ANSWER)
    with ended_by_signals():
        async with AsyncExitStack() as stack:
            cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-demo-")))
            outriderd = running("outriderd", "serve", *target, *threads, "--listen", "127.0.0.1:0", *_PAGE_COSTS)
            server = await stack.enter_async_context(outriderd)
            typer.echo("starting a server, which takes up to half a minute", err=True)
            with share_bar("starting") as advance:
                advance("server", 0.0)
                proxy = running("outrider-lab", "proxy", profile, "--to", await server.ready())
                advance("link", 0.5)
                link = await stack.enter_async_context(proxy)
                address = parse_destination(await link.ready())
            access, choice = Access(address), DraftChoice(threads=HALF_THE_CORES)
            await serve(access, choice, (), cache, defaults, OfflineOptions(), listening, _unheeded, LinkSwitch(link))


def _unheeded() -> None:
    """The parts that take long show their own progress."""


async def _answer_all(
    systems_under_test: Mapping[str, SystemUnderTest], prompts: Sequence[str], console: Console
) -> Answers:
    answers: dict[str, list[Answer]] = {name: [] for name in systems_under_test}
    for prompt, order in zip(prompts, rotations(tuple(systems_under_test), len(prompts)), strict=True):
        console.print(f"\n{prompt}", style="bold", markup=False, highlight=False)
        for name in order:
            console.rule(name, align="left", style="dim")
            renderer = SilentRenderer() if console.quiet else renderer_for(console, time.monotonic)
            client = systems_under_test[name].client
            view = AnswerView(client.tokenizer, renderer, client.description.end_tokens)
            try:
                answers[name].append(await systems_under_test[name].ask(prompt, view))
            finally:
                view.end()
    return answers


def _caption(costs: StatedCosts) -> str:
    return (
        f"The first columns are computed on a virtual clock, in which {costs.in_words} and on the server "
        f"{costs.server_level_ms:.2g} ms. The last two are what you saw in real time: the speed on this machine, and "
        "the share of passes that were late, which took longer than stated. `server-side` drafts on the server in turn "
        "with passes, `overlapped` during them; `outrider` on this machine too."
    )


def result_table(shown: Shown, title: str) -> Table:
    """As wide as 80 columns, headings whole. What else was measured is in the JSON."""
    same = "all answers identical" if shown.identical else "ANSWERS DIFFER"
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 0),
        min_width=80,
        title=f"{title}, on a virtual clock: {same}",
        caption=_caption(shown.costs),
    )
    table.add_column("system", no_wrap=True)
    for heading in ("tokens/s", "speed", "first token", "kB up", "kB down", "real time here:\ntokens/s", "late"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, compared in shown.virtual.systems.items():
        table.add_row(name, *_figures(compared), *_figures_here(shown.real.systems[name]))
    return table


def _figures(compared: ComparedSystem) -> tuple[str, ...]:
    stats = compared.stats
    return (
        f"{stats.tokens_per_second:.1f}",
        f"{compared.speed_up:.2f}x",
        f"{stats.ttft_seconds * 1000:.0f} ms",
        f"{stats.bytes_up / 1000:.1f}",
        f"{stats.bytes_down / 1000:.1f}",
    )


def _figures_here(compared: ComparedSystem) -> tuple[str, ...]:
    return f"{compared.stats.tokens_per_second:.1f}", f"{compared.overrun_passes:.0%}"
