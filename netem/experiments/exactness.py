"""`exactness`: whether a server's greedy answers are, token for token, what transformers' own `generate` writes.

A difference counts as a near-tie, and not as a fault, only where the reference's two likeliest tokens are nearer than a
rounding error: float32 sums in another order may then choose either.
"""

import asyncio
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from client.answering import AnswerOptions
from client.assembly import Client, client_for
from client.demo.asking import ask_tokens, prompt_tokens
from client.demo.family import find_family
from client.demo.systems_under_test import serving
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.stream import Access
from common.address import parse_destination
from common.protocol.errors import MisuseError
from common.stated_costs import HALF_THE_CORES
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.quiet import no_bar
from netem.experiments.references import NEAR_TIE, Reference, reference_answer, verdict

MAX_NEW_TOKENS = 64
PROMPTS = 200
CLIENTS = 4
DRAFTS = (None, "lookup")  # None: the draft model that the server offers first; `lookup` needs no model
IDLE_POLICIES = ("eager", "patient")
HEADINGS = ("drafter", "idle policy", "answers", "identical", "near-ties", "different", "accept length")


DraftAndPolicy = tuple[str, str]
"""A draft's name and an idle policy."""


async def measure(request: Request, advance: Advance) -> Report:
    """Raises MisuseError without the public prompts."""
    if request.data is None:
        raise MisuseError("this experiment reads public prompts; name their folder with --data")
    texts = read_prompts(request.data, 12 if request.quick else PROMPTS)
    family = find_family(request.models)
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        server = await stack.enter_async_context(serving(family))
        access = Access(parse_destination(await server.ready()))
        choices = [DraftChoice(draft, threads=HALF_THE_CORES) for draft in DRAFTS]
        clients = [await stack.enter_async_context(client_for(access, choice, cache, no_bar)) for choice in choices]
        references = await asyncio.to_thread(_references, family.target, texts, clients[0], advance)
        systems = [(client, idle) for client in clients for idle in IDLE_POLICIES]
        tally: dict[DraftAndPolicy, Counter[str]] = {}
        for index, (client, idle) in enumerate(systems):
            name = client.manifest.draft
            advance(f"{name}, {idle}", 0.5 + 0.5 * index / len(systems))
            tally[name, idle] = await _judge(client, idle, references)
    return make_report(tally, len(references))


def read_prompts(folder: Path, count: int) -> list[str]:
    """`count` texts, alternately Spec-Bench's first turns and HumanEval's prompts, as long as these last.

    Spec-Bench is in order of its categories: its turns are equally far apart, and reach to the end.
    folder: the one that holds eval/. Raises MisuseError where a file is missing or broken.
    """
    bench = _read_prompts(folder / "eval" / "spec_bench_question.jsonl", Path.open, lambda row: row["turns"][0])
    code = _read_prompts(folder / "eval" / "HumanEval.jsonl.gz", gzip.open, lambda row: row["prompt"])
    wanted = min(len(bench), max(count - count // 2, count - len(code)))
    turns = [bench[index * len(bench) // wanted] for index in range(wanted)]
    pairs = zip_longest(turns, code)
    return [text for pair in pairs for text in pair if text is not None][:count]


def _read_prompts(file: Path, open_: Callable[..., IO[str]], prompt_of: Callable[[Any], Any]) -> list[str]:
    broken = MisuseError(f"{file} is broken; fetch it again")
    try:
        with open_(file, "rt", encoding="utf-8") as lines:
            prompts = [prompt_of(json.loads(line)) for line in lines]
    except (gzip.BadGzipFile, EOFError, ValueError, LookupError, TypeError, zlib.error) as error:
        raise broken from error
    except OSError as error:
        raise MisuseError(f"{file} cannot be read; --data names the folder that holds eval/") from error
    if not all(isinstance(prompt, str) for prompt in prompts):
        raise broken
    return prompts


def _references(target: Path, texts: list[str], client: Client, advance: Advance) -> list[Reference]:
    from common.models.checkpoint import load_causal_lm

    model = load_causal_lm(target)
    room_tokens = client.description.context - MAX_NEW_TOKENS
    references = []
    for index, text in enumerate(texts):
        advance("transformers generate", 0.5 * index / len(texts))
        prompt = prompt_tokens(client, text)[-room_tokens:]
        references.append(reference_answer(model, prompt, client.description.end_tokens, MAX_NEW_TOKENS))
    return references


async def _judge(client: Client, idle: str, references: list[Reference]) -> Counter[str]:
    waiting, tally = iter(references), Counter[str]()
    await asyncio.gather(*(_judge_in_turn(client, idle, waiting, tally) for _ in range(CLIENTS)))
    return tally


async def _judge_in_turn(client: Client, idle: str, waiting: Iterator[Reference], tally: Counter[str]) -> None:
    drafter = client.load_drafter()
    options = AnswerOptions(STREAM, MAX_NEW_TOKENS, idle=idle)
    for reference in waiting:
        answer = await ask_tokens(client, reference.prompt, options, drafter)
        tally[verdict(reference, answer.tokens)] += 1
        tally["tokens"] += answer.stats.tokens
        tally["passes"] += answer.stats.passes


def make_report(tally: dict[DraftAndPolicy, Counter[str]], count: int) -> Report:
    rows = [
        [
            draft,
            idle,
            str(count),
            str(counted["identical"]),
            str(counted["near-tie"]),
            str(counted["different"]),
            f"{counted['tokens'] / counted['passes']:.2f}",
        ]
        for (draft, idle), counted in tally.items()
    ]
    return Report(
        title="Greedy answers against transformers' generate",
        headings=HEADINGS,
        rows=rows,
        remarks=(
            f"{count} prompts, half Spec-Bench first turns and half HumanEval, cut to the context; demo target in "
            f"float32, {MAX_NEW_TOKENS} tokens each, {CLIENTS} clients at a time on one server.",
            f"A near-tie is a first difference where the reference's two best logits are within {NEAR_TIE:g}.",
        ),
        results={f"{draft}, {idle}": dict(counted) for (draft, idle), counted in tally.items()},
        faults=[
            f"{counted['different']} answers with {draft}, {idle} differ from the reference where it is no near-tie"
            for (draft, idle), counted in tally.items()
            if counted["different"]
        ],
    )
