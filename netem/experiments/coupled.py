"""`coupled`: whether sampled answers are, token for token, the target's own for their seed, with several kinds of
drafts, idle policies and links, and where streams are cut.

The reference is transformers' own `generate` with its own logits processors and, as the last of them, the noise; it
shares no code with the server but the noise itself. A difference counts as a near-tie, and not as a fault, only where
the reference's two best perturbed scores are nearer than a rounding error.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from client.answering import AnswerOptions
from client.assembly import Client, client_for
from client.demo.asking import ask_tokens, prompt_tokens
from client.demo.children import running
from client.demo.family import find_family
from client.demo.systems_under_test import serving
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import CLOUD, LOCKSTEP, STREAM, Policy
from client.link.stream import Access
from common.address import parse_destination
from common.models.shipped import FAMILIES, ModelFolder
from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import MisuseError
from common.protocol.messages import Commit, Finished
from common.protocol.sampling import Sampling
from common.rpc.errors import LinkError
from common.stated_costs import HALF_THE_CORES
from netem.experiments.exactness import read_prompts
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.quiet import no_bar
from netem.experiments.references import NEAR_TIE, Reference, sampled_answer, sampling_of, verdict

MAX_NEW_TOKENS = 24
PROMPTS = 500
QUICK_PROMPTS = 12
TOGETHER = 8
DRAFTS = ("moa", "eagle", "medusa", "independent", "lookup")
LINKS = ("none", "lan", "5g", "4g", "satellite")
VERDICTS = ("identical", "near-tie", "different")
HEADINGS = ("system", "idle policy", "link", "clients", "answers", *VERDICTS, "accept length")


@dataclass(frozen=True, slots=True)
class CoupledSystem:
    """draft: None for plain decoding. breaks: each stream is dropped in mid-answer, and the session opened again."""

    draft: str | None
    policy: Policy = STREAM
    idle: str = "patient"
    link: str | None = None
    clients: int = TOGETHER
    breaks: bool = False

    @property
    def name(self) -> str:
        return "plain decoding, stream cut" if self.breaks else self.draft or "plain decoding"


SYSTEMS = (
    *(CoupledSystem(draft) for draft in DRAFTS),
    CoupledSystem("moa", idle="eager"),
    CoupledSystem("moa", LOCKSTEP, "lockstep"),
    CoupledSystem(None, CLOUD, "eager"),
    CoupledSystem("moa", clients=1),
    *(CoupledSystem("moa", link=link) for link in LINKS),
    CoupledSystem(None, CLOUD, "eager", breaks=True),
)


@dataclass(frozen=True, slots=True)
class SampledReference:
    """The sampling of an answer, and the reference answer with it."""

    sampling: Sampling
    reference: Reference


async def measure(request: Request, advance: Advance) -> Report:
    """Raises MisuseError without the public prompts."""
    if request.data is None:
        raise MisuseError("this experiment reads public prompts; name their folder with --data")
    texts = read_prompts(request.data, QUICK_PROMPTS if request.quick else PROMPTS)
    family = find_family(request.models)
    others = ModelFolder(request.models or FAMILIES["demo"].folder).drafts[1:]
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        more = [argument for draft in others for argument in ("--draft", str(draft))]
        address = await (await stack.enter_async_context(serving(family, *more))).ready()
        clients: dict[tuple[str | None, str | None], Client] = {}
        for link in (None, *LINKS):
            behind = address
            if link is not None:
                proxy = await stack.enter_async_context(running("outrider-lab", "proxy", link, "--to", address))
                behind = await proxy.ready()
            for draft in {system.draft for system in SYSTEMS if system.link == link}:
                choice = DraftChoice(draft, threads=HALF_THE_CORES)
                opening = client_for(Access(parse_destination(behind)), choice, cache, no_bar)
                clients[draft, link] = await stack.enter_async_context(opening)
        refer = partial(_references, family.target, texts, clients[None, None], request.seed, advance)
        references = await asyncio.to_thread(request.steps.once, "references", refer)
        tally: dict[CoupledSystem, Counter[str]] = {}
        for index, system in enumerate(SYSTEMS):
            step = f"{system.name}, {system.idle}, {system.link or 'loopback'}"
            advance(step, 0.3 + 0.7 * index / len(SYSTEMS))
            if (found := request.steps.find(step)) is None:
                found = request.steps.keep(step, await _judge(clients[system.draft, system.link], system, references))
            tally[system] = found
    return make_report(tally, len(references))


def _references(
    target: Path, texts: Sequence[str], client: Client, seed: int, advance: Advance
) -> list[SampledReference]:
    from common.models.checkpoint import load_causal_lm

    model = load_causal_lm(target)
    room_tokens = client.description.context - MAX_NEW_TOKENS
    references = []
    for index, text in enumerate(texts):
        advance("transformers generate", 0.3 * index / len(texts))
        sampling = sampling_of(index, seed)
        prompt = prompt_tokens(client, text)[-room_tokens:]
        references.append(
            SampledReference(
                sampling, sampled_answer(model, prompt, client.description.end_tokens, sampling, MAX_NEW_TOKENS)
            )
        )
    return references


async def _judge(client: Client, system: CoupledSystem, references: Sequence[SampledReference]) -> Counter[str]:
    waiting, tally = iter(references), Counter[str]()
    await asyncio.gather(*(_judge_in_turn(client, system, waiting, tally) for _ in range(system.clients)))
    return tally


async def _judge_in_turn(
    client: Client, system: CoupledSystem, waiting: Iterator[SampledReference], tally: Counter[str]
) -> None:
    drafter = client.load_drafter() if system.policy.drafts else None
    for each in waiting:
        options = AnswerOptions(system.policy, MAX_NEW_TOKENS, "coupled", system.idle, sampling=each.sampling)
        if system.breaks:
            tokens = await _answer_with_breaks(client, each.reference.prompt, options)
        else:
            answer = await ask_tokens(client, each.reference.prompt, options, drafter)
            tokens = answer.tokens
            tally["tokens"] += answer.stats.tokens
            tally["passes"] += answer.stats.passes
        tally[verdict(each.reference, tokens)] += 1


async def _answer_with_breaks(client: Client, prompt: Sequence[int], options: AnswerOptions) -> tuple[int, ...]:
    """Drops each stream of the session once it has brought a third of the answer's length."""
    described = client.description
    session = ClientSession(
        uuid.uuid4().hex, Limits(described.fingerprint, described.vocab_size, described.context, described.max_nodes)
    )
    opening: Sequence[Any] = [session.open(prompt, options.settings())]
    while True:
        stream = client.connection.generate()
        for message in opening:
            stream.send(message)
        until = session.tree.frontier + MAX_NEW_TOKENS // 3
        while session.finished is None and session.tree.frontier < until:
            received = await stream.receive()
            if received is None:
                raise LinkError("the server has ended the stream")
            session.receive(received)
            acknowledgement = session.acknowledge() if isinstance(received, Commit) else None
            if acknowledgement is not None:
                stream.send(acknowledgement)
            if isinstance(received, Finished):
                break
        stream.close()
        if session.finished is not None:
            return tuple(session.answer)
        session.lost()
        opening = session.reopen()


def make_report(tally: Mapping[CoupledSystem, Counter[str]], count: int) -> Report:
    return Report(
        title="Sampled answers against transformers' generate with the same noise",
        headings=HEADINGS,
        rows=[_cells(system, counted, count) for system, counted in tally.items()],
        remarks=(
            f"{count} prompts, Spec-Bench first turns and HumanEval, cut to the context; demo target in float32, "
            f"{MAX_NEW_TOKENS} tokens each, every prompt with a seed of its own; in turn temperature 0.7; "
            f"temperature 1; 0.8 "
            "with top-k 40 and top-p 0.95; 1 with min-p 0.05 and repetition penalty 1.2.",
            f"A near-tie is a first difference where the reference's two best scores are within {NEAR_TIE:g}.",
            "'stream cut': the session's stream is dropped after each third of the answer, and opened again.",
        ),
        results={_label(system): dict(counted) for system, counted in tally.items()},
        faults=[
            f"{counted['different']} answers of {_label(system)} differ from the reference where it is no near-tie"
            for system, counted in tally.items()
            if counted["different"]
        ],
    )


def _label(system: CoupledSystem) -> str:
    return f"{system.name}, {system.idle}, {system.link or 'loopback'}, {system.clients}"


def _cells(system: CoupledSystem, counted: Counter[str], count: int) -> list[str]:
    accept = "" if system.breaks else f"{counted['tokens'] / counted['passes']:.2f}"
    verdicts = (str(counted[kind]) for kind in VERDICTS)
    link = system.link or "loopback"
    return [system.name, system.idle, link, str(system.clients), str(count), *verdicts, accept]
