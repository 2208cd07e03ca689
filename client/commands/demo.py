"""`outrider demo`: the shipped models behind an emulated link, each system answering the same prompts in turn.

One short unmeasured answer comes first, so that nobody pays for the server's first pass. Each system drafts with a
drafter of its own, so that none finds another's work in it.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from client.answering import AnswerOptions
from client.assembly import Client, DraftChoice, client_for
from client.conversation import Answer
from client.demo.comparison import SYSTEMS, Answers, Comparison, compare, rotations
from client.demo.costs import DRAFT_SECONDS, HALF_THE_CORES, OVERRUN_LIMIT, SERVER_ARGUMENTS, overrun_share
from client.demo.family import choose_prompts, find_family
from client.demo.processes import serving
from client.errors import BrokenOffError
from client.link import Access
from client.policies import CLOUD
from client.progress import download_bar
from client.render import AnswerView, NoPaper, Paper, paper_for
from client.text import chat_tokens
from common.address import parse_destination
from common.drafters.drafter import Drafter

_WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class DemoOptions:
    prompts: int
    max_new_tokens: int
    profile: str
    seed: int
    models: Path | None = None  # a folder with target, draft and prompts.jsonl; None for what is shipped


async def demo(options: DemoOptions, *, as_json: bool) -> None:
    """Shows every answer as it comes, then a table; or prints one JSON object."""
    console = Console(quiet=as_json)
    family = find_family(options.models)
    prompts = choose_prompts(family.prompts, options.prompts, options.seed)
    models = ("--target", str(family.target), "--draft", str(family.draft), "--threads", str(HALF_THE_CORES))
    daemon = serving("outriderd", "serve", *models, "--listen", "127.0.0.1:0", *SERVER_ARGUMENTS)
    async with daemon as server, serving("outrider-lab", "proxy", options.profile, "--to", server.address) as link:
        with tempfile.TemporaryDirectory(prefix="outrider-demo-") as cache:
            access = Access(parse_destination(link.address))
            async with client_for(access, DraftChoice(threads=HALF_THE_CORES), Path(cache), download_bar) as client:
                answers = await _answer_all(client, prompts, options.max_new_tokens, console)
    comparison = compare(answers)
    overrun = overrun_share(server.summary())
    if as_json:
        typer.echo(json.dumps({**comparison.as_dict(), "overrun_share": overrun}))
        return
    console.print(_table(comparison, f"{len(prompts)} of the demo's prompts over {options.profile}"))
    if overrun > OVERRUN_LIMIT:
        console.print(
            f"{overrun:.0%} of the passes took longer than their stated cost, so these speeds do not count; "
            "run the demo on an idler machine."
        )


async def _answer_all(client: Client, prompts: Sequence[str], longest: int, console: Console) -> Answers:
    drafters = {name: client.load_drafter() for name, policy in SYSTEMS.items() if policy.drafts}
    await _ask(client, None, AnswerOptions(CLOUD, _WARM_UP_TOKENS), prompts[0], NoPaper())
    answers: dict[str, list[Answer]] = {name: [] for name in SYSTEMS}
    for prompt, order in zip(prompts, rotations(tuple(SYSTEMS), len(prompts)), strict=True):
        console.print(f"\n{prompt}", style="bold", markup=False, highlight=False)
        for name in order:
            console.rule(name, align="left", style="dim")
            wish = AnswerOptions(SYSTEMS[name], longest, pace=DRAFT_SECONDS)
            paper = NoPaper() if console.quiet else paper_for(console, time.monotonic)
            answers[name].append(await _ask(client, drafters.get(name), wish, prompt, paper))
    return answers


async def _ask(client: Client, drafter: Drafter | None, wish: AnswerOptions, prompt: str, paper: Paper) -> Answer:
    tokens = chat_tokens(client.tokenizer, [{"role": "user", "content": prompt}])
    view = AnswerView(client.tokenizer, paper)
    async with client.converse(wish.policy, drafter, wish.pace) as conversation:
        try:
            answer = await conversation.answer(tokens, wish.settings(), view)
        finally:
            view.end()
    if answer.failure:
        raise BrokenOffError(answer.failure)
    return answer


def _table(comparison: Comparison, title: str) -> Table:
    same = "all answers identical" if comparison.identical else "ANSWERS DIFFER"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, title=f"{title}: {same}")
    table.add_column("system", no_wrap=True)
    for heading in ("tokens/s", "speed-up", "first\ntoken", "accept\nlength", "passes", "up", "down"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, stats in comparison.systems.items():
        table.add_row(
            name,
            f"{stats.tokens_per_second:.1f}",
            f"{comparison.speed_up(name):.2f}x",
            f"{stats.ttft_seconds * 1000:.0f} ms",
            f"{stats.accept_length:.2f}",
            str(stats.passes),
            f"{stats.bytes_up / 1000:.1f} kB",
            f"{stats.bytes_down / 1000:.1f} kB",
        )
    return table
