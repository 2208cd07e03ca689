"""`conformance`: whether answers constrained to random JSON schemas are valid, and the same whatever drafts them, for
every policy and link; how fast they are beside unconstrained ones. On the virtual clock.

May know systems, links and reports; it may not know how answers are judged.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from client.answer import Answer
from client.stats import combined, per
from common.models.checkpoint import load_tokenizer
from common.models.tokenizer import Tokenizer
from netem.experiments.conformance.asked import make_question
from netem.experiments.conformance.runs import MOST_TOKENS, PROMPTS, Load, SystemOnLink, SystemRun, run_all
from netem.experiments.conformance.schemas import make_schema
from netem.experiments.conformance.verdicts import verdict
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.compared_drafts import find_model_paths
from netem.experiments.speed.costs import VIRTUAL_CLOCK, VIRTUAL_COSTS
from netem.experiments.speed.runs import fault_of
from netem.experiments.speed.systems import (
    ASSIST,
    AUTO,
    CLOUD_DECODING,
    COLOCATED,
    EAGER,
    LOCKSTEP_MOA,
    PATIENT,
    System,
)
from netem.virtual.client import DraftSetup

LOAD = Load(schemas=500, timed=24)
QUICK_LOAD = Load(schemas=24, timed=8)

_FIRST = slice(LOAD.timed)
"""The schemas of a system that is compared for its speed alone."""


def _patient(draft: str) -> System:
    return replace(PATIENT, name=f"patient {draft}", draft=DraftSetup(draft))


SYSTEMS = (
    SystemOnLink(CLOUD_DECODING, "5g", is_timed=True),
    SystemOnLink(_patient("moa"), "5g", is_timed=True),
    SystemOnLink(_patient("block"), "5g"),
    SystemOnLink(_patient("eagle3"), "5g"),
    SystemOnLink(_patient("lookup"), "5g"),
    SystemOnLink(replace(EAGER, name="eager moa"), "5g", _FIRST, is_timed=True),
    SystemOnLink(replace(AUTO, name="auto moa"), "5g", _FIRST, is_timed=True),
    SystemOnLink(replace(EAGER, name="eager moa"), "lte-flaky", slice(0, None, 4)),
    SystemOnLink(replace(ASSIST, name="assist moa"), "satellite", slice(1, None, 4)),
    SystemOnLink(LOCKSTEP_MOA, "4g", slice(2, None, 4)),
    SystemOnLink(COLOCATED, "urban-5g", slice(3, None, 4)),
)
"""The first answers everything, and the others are compared with it: drafters with all schemas, policies over other
links with every fourth."""

HEADINGS = (
    "system",
    "answers",
    "valid",
    "invalid",
    "cut",
    "as the first system",
    "tokens/s",
    "x unconstrained",
    "x unconstrained, JSON not asked for",
)


async def measure(request: Request, advance: Advance) -> Report:
    load = QUICK_LOAD if request.quick else LOAD
    advance("loading", 0.0)
    tokenizer = await asyncio.to_thread(load_tokenizer, find_model_paths(request).target)
    return make_report(await run_all(request, SYSTEMS, load, advance), tokenizer)


def make_report(runs: Mapping[str, SystemRun], tokenizer: Tokenizer) -> Report:
    first = next(iter(runs.values()))
    results = {name: _counted(run, first, tokenizer) for name, run in runs.items()}
    asked, forced = first.asked, first.forced
    return Report(
        title="Answers constrained to random JSON schemas",
        headings=HEADINGS,
        rows=[_row(name, counted) for name, counted in results.items()],
        remarks=(
            f"{len(forced.constrained)} schemas of draft 2020-12 from a generator of keywords that llguidance "
            f"supports, with {PROMPTS} held-out prompts for code in turn, and {len(asked.constrained)} prompts that "
            f"ask for records as JSON, with the schema of these; greedy, at most {MOST_TOKENS} tokens. Systems without "
            "a speed answer the schemas alone, those over other links every fourth; 16 clients at once, and levels of "
            "20 ms, where no speed is told.",
            "tokens/s are those of the prompts that ask for JSON, beside answers to the same prompts without a "
            "constraint, of at most the same lengths; tokens without a choice count, as they are part of the answer. "
            f"The last column is of {len(forced.free)} prompts for code whose answers the schema forces into "
            "another form, of which the draft model has seen as little as the target.",
            VIRTUAL_CLOCK,
        ),
        results={"stated_costs": VIRTUAL_COSTS, "clock": "virtual", "systems": results},
        faults=_faults(runs, results),
    )


def _counted(run: SystemRun, first: SystemRun, tokenizer: Tokenizer) -> dict[str, Any]:
    asked, forced = run.asked.constrained, run.forced.constrained
    verdicts = Counter(verdict(answer, make_question(number)[1], tokenizer) for number, answer in asked.items())
    verdicts.update(verdict(answer, make_schema(number), tokenizer) for number, answer in forced.items())
    constrained = [*asked.values(), *forced.values()]
    counted: dict[str, Any] = {
        **{kind: verdicts[kind] for kind in ("valid", "invalid", "cut")},
        "answers": len(constrained),
        "same": sum(answer.tokens == first.asked.constrained[number].tokens for number, answer in asked.items())
        + sum(answer.tokens == first.forced.constrained[number].tokens for number, answer in forced.items()),
        "tokens": sum(len(answer.tokens) for answer in constrained),
        "passes": sum(answer.stats.passes for answer in constrained),
    }
    for which, of_kind in (("asked", run.asked), ("not_asked", run.forced)):
        if of_kind.free:
            counted[which] = {
                "tokens_per_second": of_kind.speed,
                "unconstrained_tokens_per_second": of_kind.free_speed,
                "accept_length": _accept_length([of_kind.constrained[number] for number in of_kind.free]),
                "unconstrained_accept_length": _accept_length(list(of_kind.free.values())),
            }
    return counted


def _accept_length(answers: Sequence[Answer]) -> float:
    return combined([answer.stats for answer in answers]).accept_length


def _faults(runs: Mapping[str, SystemRun], results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    faults = [f"{name}: {fault}" for name, run in runs.items() for each in run.answers if (fault := fault_of(each))]
    for name, counted in results.items():
        if counted["invalid"]:
            faults.append(f"{counted['invalid']} finished answers of {name} do not fit their schemas")
        if counted["same"] < counted["answers"]:
            faults.append(f"{counted['answers'] - counted['same']} answers of {name} differ from the first system's")
    return faults


def _row(name: str, counted: Mapping[str, Any]) -> list[str]:
    kinds = (str(counted[kind]) for kind in ("answers", "valid", "invalid", "cut", "same"))
    if "asked" not in counted:
        return [name, *kinds, "", "", ""]
    ratios = (_ratio(counted[which]) for which in ("asked", "not_asked"))
    return [name, *kinds, f"{counted['asked']['tokens_per_second']:.1f}", *(f"{ratio:.2f}" for ratio in ratios)]


def _ratio(speeds: Mapping[str, float]) -> float:
    return per(speeds["tokens_per_second"], speeds["unconstrained_tokens_per_second"])
