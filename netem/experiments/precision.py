"""`precision`: whether answers in bfloat16 and float16 are those of plain decoding through the same server, and what
that costs.

On the virtual clock. Each prompt is answered plainly, beside others, and then by one of the drafted systems, with
another number of sessions at once; prompts are dealt to systems in turn. Every other one is sampled with shared noise,
the rest are greedy. Fewer prompts are asked the same once more with `--fast`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace

from common.protocol.errors import MisuseError
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.precision_run import (
    DEMO,
    LEVEL_SECONDS,
    LINK,
    MAX_NEW_TOKENS,
    NEAR,
    PLAIN_SESSIONS,
    RANDOM,
    VOCABULARY,
    ComparedAnswers,
    TestedServer,
    compare_answers,
    demo_server,
    random_server,
)

DTYPES = ("bfloat16", "float16")
HEADINGS = (
    "target",
    "dtype",
    "passes",
    "drafter",
    "policy",
    "sessions",
    "answers",
    "differ from plain decoding",
    "differ as one prompt",
    "smallest margin",
    "ties",
    "accept length",
    "ms a plain pass",
    "ms a drafted pass",
)

OpenServer = Callable[[Request, str, bool, int], AbstractContextManager[TestedServer]]
SERVERS: dict[str, OpenServer] = {DEMO: demo_server, RANDOM: random_server}


@dataclass(frozen=True, slots=True)
class Mode:
    """`prompts` for each dtype, by target; `quick_prompts` in a quick run."""

    name: str
    batch_invariant: bool
    prompts: Mapping[str, int]
    quick_prompts: Mapping[str, int]


MODES = (
    Mode("batch-invariant", True, {DEMO: 300, RANDOM: 48}, {DEMO: 60, RANDOM: 8}),
    Mode("fast", False, {DEMO: 96, RANDOM: 48}, {DEMO: 24, RANDOM: 8}),
)


async def measure(request: Request, advance: Advance) -> Report:
    """A quick run has the demo's target alone where none is named. Raises MisuseError for an unknown target."""
    targets = choose_targets(request.targets) if request.targets or not request.quick else (DEMO,)
    conditions = [(target, mode, dtype) for mode in MODES for target in targets for dtype in DTYPES]
    compared: list[ComparedAnswers] = []
    faults: list[str] = []
    for index, (target, mode, dtype) in enumerate(conditions):

        def compare(done: int = index, target: str = target, mode: Mode = mode, dtype: str = dtype) -> None:
            count = (mode.quick_prompts if request.quick else mode.prompts)[target]
            with SERVERS[target](request, dtype, mode.batch_invariant, count) as tested:
                for number in range(len(tested.systems)):
                    advance(f"{target}, {dtype}, {mode.name}", (done + number / len(tested.systems)) / len(conditions))
                    found, own = compare_answers(tested, number, (target, dtype, mode.name), request.seed)
                    compared.append(found)
                    faults.extend(own)

        # In a thread: the virtual clock has an event loop of its own.
        await asyncio.to_thread(compare)
    return make_report(compared, faults)


def choose_targets(names: Sequence[str]) -> Sequence[str]:
    """Those of the names, or all. Raises MisuseError for an unknown one."""
    for name in names:
        if name not in SERVERS:
            raise MisuseError(f"there is no target '{name}'; choose {' or '.join(SERVERS)}")
    return names or tuple(SERVERS)


def make_report(compared: Sequence[ComparedAnswers], faults: Sequence[str] = ()) -> Report:
    invariant_modes = {mode.name for mode in MODES if mode.batch_invariant}
    broken = [each for each in compared if each.mode in invariant_modes]
    different, recomputed = (
        sum(each.different for each in broken),
        sum(each.recomputed_different for each in broken),
    )
    return Report(
        title="Answers in low precision against plain decoding through the same server",
        headings=HEADINGS,
        rows=[_row(each) for each in compared] + [_total(cells) for cells in _by_condition(compared).values()],
        remarks=(
            f"On the virtual clock over {LINK}, {MAX_NEW_TOKENS} tokens each, a drafted level in "
            f"{1000 * LEVEL_SECONDS:g} ms; every other prompt of a system is sampled with shared noise, the rest are "
            "greedy. Prompts are dealt to the systems in turn.",
            f"{DEMO}: the shipped target, held-out prompts. {RANDOM}: two random layers in the shape of Qwen3-0.6B "
            f"with a vocabulary of {VOCABULARY}; '{NEAR}' is the same checkpoint, which drafts in float32.",
            f"Plain decoding: no drafts, {PLAIN_SESSIONS} sessions at a time. Fast passes are those of `--fast`.",
            "As one prompt: greedy answers of plain decoding are computed once more, together with their prompts as "
            "one chunk, and differ where another token is the likeliest. Their smallest margin is the least difference "
            "between the two best logits of a token, and a tie a token without any.",
            "Milliseconds are processor time of the passes alone, with the rules' work.",
        ),
        results={"compared": [asdict(each) for each in compared]},
        faults=[
            *faults,
            *([f"{different} answers of batch-invariant passes differ from plain decoding"] if different else []),
            *([f"{recomputed} answers of batch-invariant passes are others as one prompt"] if recomputed else []),
        ],
    )


def _by_condition(compared: Sequence[ComparedAnswers]) -> dict[tuple[str, str, str], list[ComparedAnswers]]:
    conditions: dict[tuple[str, str, str], list[ComparedAnswers]] = {}
    for each in compared:
        conditions.setdefault((each.target, each.dtype, each.mode), []).append(each)
    return conditions


def _row(each: ComparedAnswers) -> list[str]:
    return [
        each.target,
        each.dtype,
        each.mode,
        each.drafter,
        each.policy,
        str(each.sessions),
        str(each.answers),
        str(each.different),
        f"{each.recomputed_different} of {each.recomputed}",
        f"{each.smallest_margin:.3g}",
        str(each.ties),
        f"{each.tokens / max(1, each.passes):.2f}",
        f"{each.plain_pass_ms:.1f}",
        f"{each.pass_ms:.1f}",
    ]


def _total(cells: Sequence[ComparedAnswers]) -> list[str]:
    """Of all systems of a condition; times are the means of theirs."""
    count = len(cells)
    return _row(
        replace(
            cells[0],
            drafter="all",
            policy="",
            sessions=sum(each.sessions for each in cells) // count,
            answers=sum(each.answers for each in cells),
            different=sum(each.different for each in cells),
            recomputed=sum(each.recomputed for each in cells),
            recomputed_different=sum(each.recomputed_different for each in cells),
            smallest_margin=min(each.smallest_margin for each in cells),
            ties=sum(each.ties for each in cells),
            tokens=sum(each.tokens for each in cells),
            passes=sum(each.passes for each in cells),
            plain_pass_ms=sum(each.plain_pass_ms for each in cells) / count,
            pass_ms=sum(each.pass_ms for each in cells) / count,
        )
    )
