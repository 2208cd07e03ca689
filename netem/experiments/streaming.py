"""`streaming`: what the streaming tree is worth, against rounds and against cloud decoding, link by link.

One core, one drafter, one server: only the client's policy and the idle policy that it asks for differ.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from client.answering import AnswerOptions
from client.assembly import Client, DraftChoice, client_for
from client.conversation import Answer
from client.demo.comparison import compare, rotations
from client.demo.costs import DRAFT_SECONDS, HALF_THE_CORES, OVERRUN_LIMIT, SERVER_ARGUMENTS, STATED, overrun_share
from client.demo.family import choose_prompts, find_family
from client.demo.processes import Child, serving
from client.link import Access
from client.policies import CLOUD, LOCKSTEP, STREAM, Policy
from client.stats import Stats
from client.text import chat_tokens
from common.address import parse_destination
from common.drafters.drafter import Drafter
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.quiet import no_bar


@dataclass(frozen=True)
class System:
    policy: Policy
    idle: str


SYSTEMS: Mapping[str, System] = {
    "cloud decoding": System(CLOUD, "eager"),
    "lock-step": System(LOCKSTEP, "lockstep"),
    "streaming, patient": System(STREAM, "patient"),
    "streaming, eager": System(STREAM, "eager"),
}
REFERENCE = "cloud decoding"
LINKS = ("5g", "4g", "satellite")
HEADINGS = ("link", "system", "tokens/s", "against cloud", "first token", "accept length", "passes/token", "B up/token")

Answers = dict[str, list[Answer]]


async def measure(request: Request, advance: Advance) -> Report:
    """Every system answers every prompt in turn, on each link."""
    family = find_family(request.models)
    prompts = choose_prompts(family.prompts, 2 if request.quick else 12, request.seed)
    longest = 64 if request.quick else 192
    models = ("--target", str(family.target), "--draft", str(family.draft), "--threads", str(HALF_THE_CORES))
    measured: dict[str, Answers] = {}
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        daemon = serving("outriderd", "serve", *models, "--listen", "127.0.0.1:0", *SERVER_ARGUMENTS)
        server = await stack.enter_async_context(daemon)
        for index, link in enumerate(LINKS):
            async with serving("outrider-lab", "proxy", link, "--to", server.address) as proxy:
                access = Access(parse_destination(proxy.address))
                async with client_for(access, DraftChoice(threads=HALF_THE_CORES), cache, no_bar) as client:
                    measured[link] = await _on_link(client, prompts, longest, advance, link, index)
    return _report(measured, server, longest)


async def _on_link(
    client: Client, prompts: list[str], longest: int, advance: Advance, link: str, index: int
) -> Answers:
    drafters = {name: client.load_drafter() for name, system in SYSTEMS.items() if system.policy.drafts}
    await _ask(client, None, AnswerOptions(CLOUD, 4), prompts[0])
    answers: Answers = {name: [] for name in SYSTEMS}
    for number, (prompt, order) in enumerate(zip(prompts, rotations(tuple(SYSTEMS), len(prompts)), strict=True)):
        for name in order:
            advance(f"{link}, {name}", (index + number / len(prompts)) / len(LINKS))
            system = SYSTEMS[name]
            wish = AnswerOptions(system.policy, longest, idle=system.idle, pace=DRAFT_SECONDS)
            answers[name].append(await _ask(client, drafters.get(name), wish, prompt))
    return answers


async def _ask(client: Client, drafter: Drafter | None, wish: AnswerOptions, prompt: str) -> Answer:
    tokens = chat_tokens(client.tokenizer, [{"role": "user", "content": prompt}])
    async with client.converse(wish.policy, drafter, wish.pace) as conversation:
        return await conversation.answer(tokens, wish.settings(), lambda committed, provisional: None)


def _report(measured: dict[str, Answers], server: Child, longest: int) -> Report:
    rows: list[list[str]] = []
    results: dict[str, Any] = {"stated_costs": STATED, "server": server.summary(), "links": {}}
    identical = True
    for link, answers in measured.items():
        comparison = compare(answers)
        identical &= comparison.identical
        results["links"][link] = {
            name: {**stats.as_dict(), **_against(answers, name)} for name, stats in comparison.systems.items()
        }
        rows += [_row(link, name, stats, _against(answers, name)) for name, stats in comparison.systems.items()]
    results["identical"] = identical
    overran = overrun_share(server.summary())
    count = len(next(iter(next(iter(measured.values())).values())))
    return Report(
        title="Streaming tree, lock-step rounds and cloud decoding",
        headings=HEADINGS,
        rows=rows,
        remarks=(
            f"{count} held-out prompts of the demo family, at most {longest} tokens each, greedy; systems took turns "
            f"prompt by prompt. Answers identical across systems and links: {'yes' if identical else 'NO'}.",
            "Real time over the proxy: TCP is terminated, so loss is not emulated. Stated costs: a pass 30 ms and "
            "0.1 ms per token, a drafted level 5 ms.",
            "'against cloud' is the median over prompts of the ratio of tokens/s; tokens/s are sums over sums.",
            f"{100 * overran:.1f}% of passes overran their stated cost (a run is invalid above 5%).",
        ),
        results=results,
        draw=lambda axes: _draw(axes, results["links"]),
        valid=overran <= OVERRUN_LIMIT,
    )


def _against(answers: Answers, name: str) -> dict[str, float]:
    pairs = list(zip(answers[name], answers[REFERENCE], strict=True))
    return {
        "speed_up": median(ours.stats.tokens_per_second / cloud.stats.tokens_per_second for ours, cloud in pairs),
        "ttft_ratio": median(ours.stats.ttft_seconds / cloud.stats.ttft_seconds for ours, cloud in pairs),
    }


def _row(link: str, name: str, stats: Stats, against: dict[str, float]) -> list[str]:
    return [
        link,
        name,
        f"{stats.tokens_per_second:.1f}",
        f"{against['speed_up']:.2f}x",
        f"{1000 * stats.ttft_seconds:.0f} ms ({against['ttft_ratio']:.2f}x)",
        f"{stats.accept_length:.2f}",
        f"{stats.passes / stats.tokens:.2f}",
        f"{stats.bytes_up / stats.tokens:.0f}",
    ]


def _draw(axes: Any, links: dict[str, dict[str, dict[str, Any]]]) -> None:
    width = 0.8 / len(SYSTEMS)
    for place, name in enumerate(SYSTEMS):
        speeds = [links[link][name]["tokens_per_second"] for link in links]
        left = [index + (place - (len(SYSTEMS) - 1) / 2) * width for index in range(len(links))]
        axes.bar_label(axes.bar(left, speeds, width * 0.95, label=name), fmt="%.0f", fontsize=8)
    axes.set_xticks(range(len(links)), list(links))
    axes.set_ylabel("committed tokens per second")
    axes.legend(title="pass 30 ms, drafted level 5 ms", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
