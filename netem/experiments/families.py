"""`families`: whether answers of many families of models are, token for token, what transformers' `generate` writes.

The real client and server on the virtual clock, with packed passes over the streamed tree. The checkpoints are random
and made by the run; every family is to be served. It may not know how any family is computed.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from client.answering import AnswerOptions
from client.drafting.policies import STREAM
from common.models.checkpoint import load_causal_lm
from common.models.errors import CheckpointError
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.family_checkpoints import (
    FAMILIES,
    SPREAD,
    VOCABULARY,
    Family,
    make_draft_checkpoint,
    make_family_checkpoint,
)
from netem.experiments.references import NEAR_TIE, Reference, reference_answer, verdict
from netem.experiments.speed.runs import fault_of
from netem.links.profiles import PROFILES
from netem.virtual.client import DraftSetup, LoadedDrafts, ask
from netem.virtual.clock import run_virtually
from netem.virtual.server import VirtualServer, load_virtual_server

MAX_NEW_TOKENS = 60
PROMPTS = 2
QUICK_FAMILIES = ("llama", "gemma2", "gpt-oss", "gpt2")
LINK = "4g"
LEVEL_SECONDS = 0.005
NEAR = "near"
DRAFTS = ("lookup", NEAR)
VERDICTS = ("identical", "near-tie", "different")
HEADINGS = ("family", "what is special", "draft model", "answers", *VERDICTS, "accept length")


@dataclass(frozen=True, eq=False)
class FamilyOutcome:
    """refusal: why the family is not served, empty where it is. tally: verdicts, tokens and passes by draft. faults: of
    answers that cannot be counted."""

    family: Family
    refusal: str = ""
    tally: Mapping[str, Counter[str]] = field(default_factory=dict)
    gaps: Sequence[float] = ()
    """Between the two best scores, at each position of the reference answers."""
    faults: Sequence[str] = ()


async def measure(request: Request, advance: Advance) -> Report:
    names = QUICK_FAMILIES if request.quick else tuple(FAMILIES)
    outcomes = []
    for index, name in enumerate(names):
        advance(name, index / len(names))
        outcomes.append(await asyncio.to_thread(judge, FAMILIES[name], request.seed))
    return make_report(outcomes)


def judge(family: Family, seed: int) -> FamilyOutcome:
    """Makes a target of the family and a draft model near it, and compares their answers with the target's own."""
    with TemporaryDirectory(prefix="outrider-lab-") as folder:
        target = make_family_checkpoint(Path(folder) / "target", family, seed=seed)
        draft = make_draft_checkpoint(target, Path(folder) / NEAR, seed=seed)
        try:
            server = load_virtual_server(target, [draft])
        except CheckpointError as error:
            return FamilyOutcome(family, refusal=str(error).replace(folder, "DIR"))
        ends = tuple(server.offer.card.end_tokens)
        model = load_causal_lm(target)
        references = [reference_answer(model, prompt, ends, MAX_NEW_TOKENS) for prompt in _prompts(seed)]
        loaded = LoadedDrafts(server)
        faults: list[str] = []
        tally = {name: _judge_draft(server, loaded, name, references, faults) for name in DRAFTS}
    gaps = [gap for each in references for gap in each.gaps]
    return FamilyOutcome(family, tally=tally, gaps=gaps, faults=faults)


def _judge_draft(
    server: VirtualServer, loaded: LoadedDrafts, draft: str, references: Sequence[Reference], faults: list[str]
) -> Counter[str]:
    options = AnswerOptions(STREAM, MAX_NEW_TOKENS, idle="patient", pace=LEVEL_SECONDS)
    tally: Counter[str] = Counter()

    async def main() -> None:
        async with server.serve() as engine:
            asked = (
                ask(engine, server, PROFILES[LINK], each.prompt, options, loaded.drafter(DraftSetup(draft)))
                for each in references
            )
            for reference, answer in zip(references, await asyncio.gather(*asked), strict=True):
                tally[verdict(reference, answer.tokens)] += 1
                tally["tokens"] += answer.stats.tokens
                tally["passes"] += answer.stats.passes
                if fault := fault_of(answer):
                    faults.append(f"with {draft}, {fault}")

    run_virtually(main())
    return tally


def _prompts(seed: int) -> list[list[int]]:
    """The first ends as it begins, so that the lookup draft finds something."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(3, VOCABULARY, (PROMPTS, 24), generator=generator).tolist()
    return [drawn[0] + drawn[0][:12], *drawn[1:]]


def make_report(outcomes: Sequence[FamilyOutcome]) -> Report:
    tallies = {(each.family.name, draft): counted for each in outcomes for draft, counted in each.tally.items()}
    gaps = [gap for each in outcomes for gap in each.gaps] or [0.0]
    refused = [each for each in outcomes if each.refusal]
    different = {key: counted["different"] for key, counted in tallies.items() if counted["different"]}
    return Report(
        title="Answers of families of models against transformers' generate",
        headings=HEADINGS,
        rows=[row for each in outcomes for row in _rows(each)],
        remarks=(
            f"Packed tree passes of streamed sessions over {LINK} on the virtual clock, {PROMPTS} prompts at once, "
            f"{MAX_NEW_TOKENS} greedy tokens each, float32, idle policy patient.",
            f"Random checkpoints of 4 layers, hidden size 48 and {VOCABULARY} tokens. All weights are drawn with "
            f"standard deviation {SPREAD:g} instead of the usual 0.02, so that ties are no issue: the two likeliest "
            f"tokens are {median(gaps):.2g} apart in the median and {min(gaps):.2g} at least.",
            f"'{NEAR}' is an independent draft model of the same family: the target with a tenth of noise.",
            f"A near-tie is a first difference where the reference's two best scores are within {NEAR_TIE:g}.",
        ),
        results={
            each.family.name: {"refusal": each.refusal}
            | {draft: dict(counted) for draft, counted in each.tally.items()}
            for each in outcomes
        },
        faults=[
            *(f"{each.family.name} is refused: {each.refusal}" for each in refused),
            *(f"{each.family.name} {fault}" for each in outcomes for fault in each.faults),
            *(
                f"{count} answers of {name} with {draft} differ from the reference where it is no near-tie"
                for (name, draft), count in different.items()
            ),
        ],
    )


def _rows(outcome: FamilyOutcome) -> list[list[str]]:
    named = [outcome.family.name, outcome.family.special]
    if outcome.refusal:
        return [[*named, "refused", *[""] * (len(HEADINGS) - 3)]]
    rows = []
    for draft, counted in outcome.tally.items():
        verdicts = [counted[kind] for kind in VERDICTS]
        accept = f"{counted['tokens'] / counted['passes']:.2f}"
        rows.append([*named, draft, str(sum(verdicts)), *map(str, verdicts), accept])
    return rows
