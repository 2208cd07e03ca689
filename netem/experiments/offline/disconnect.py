"""`disconnect`: which tasks still pass when the link is cut for good in mid-answer and the draft writes on alone
(Table 4 of Mixture of Attentions), against the target's own answers and against a client that has no draft.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from common.protocol.errors import MisuseError
from common.protocol.prefix import common_prefix
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.offline.alone import Written, write_on
from netem.experiments.offline.asked import Asked, find_tasks, long_answers
from netem.experiments.offline.disconnect_report import Cut, Kept, make_report
from netem.experiments.offline.sizes import own_parameters
from netem.experiments.one_device.bench import Bench, open_bench
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths
from netem.experiments.tasks.grading import Grades, grade
from netem.experiments.tasks.tasks import Task

_TARGETS_SHARE = 0.3  # of a run, in time; drafts and judging share the rest
_DRAFTS_SHARE = 0.5


@dataclass(frozen=True)
class Extent:
    """`tasks` with answers of `least` to `most` tokens, each cut behind so many tokens as `cuts` says."""

    tasks: int
    least: int
    most: int
    cuts: tuple[int, ...]


FULL = Extent(120, least=120, most=384, cuts=(10, 25, 50))
QUICK = Extent(8, least=120, most=384, cuts=(10, 25, 50))

_Key = tuple[str, int]
"""A draft's name and a cut."""


async def measure(request: Request, advance: Advance) -> Report:
    extent = QUICK if request.quick else FULL
    paths, drafts = find_model_paths(request), find_drafts(request)
    with open_bench(paths, drafts) as bench:
        asked = await _ask_target(bench, find_tasks(request, paths, bench), extent, advance)
        written = await _write_all(bench, drafts, asked, extent, advance)
        texts = {key: [bench.text(each.tokens) for each in answers] for key, answers in written.items()}
        own = [bench.text(each.own) for each in asked]
        begun = {cut: [bench.text(each.own[:cut]) for each in asked] for cut in extent.cuts}
    advance("judging", _TARGETS_SHARE + _DRAFTS_SHARE)
    graded = await asyncio.to_thread(grade_all, asked, [*texts.values(), own, *begun.values()])
    of_drafts = dict(zip(texts, graded, strict=False))
    of_target, *of_begun = graded[len(texts) :]
    cuts = {key: Cut(grades, written[key], agreed(written[key], asked, key[1])) for key, grades in of_drafts.items()}
    kept = [
        Kept(each.name, each.depth, own_parameters(each), {cut: cuts[each.name, cut] for cut in extent.cuts})
        for each in drafts
    ]
    return make_report(kept, of_target, dict(zip(extent.cuts, of_begun, strict=True)), extent.least)


async def _ask_target(bench: Bench, tasks: Sequence[Task], extent: Extent, advance: Advance) -> list[Asked]:
    asked: list[Asked] = []
    for each in long_answers(bench, tasks, extent.tasks, extent.least, extent.most):
        advance("the target's own answers", _TARGETS_SHARE * len(asked) / extent.tasks)
        asked.append(each)
        await asyncio.sleep(0)
    if not asked:
        raise MisuseError(f"the target answers none of these tasks in {extent.least} tokens or more: nothing to cut")
    return asked


async def _write_all(
    bench: Bench, drafts: Sequence[ComparedDraft], asked: Sequence[Asked], extent: Extent, advance: Advance
) -> dict[_Key, list[Written]]:
    written: dict[_Key, list[Written]] = {(each.name, cut): [] for each in drafts for cut in extent.cuts}
    for number, task in enumerate(asked):
        for each in drafts:
            advance(f"{each.name} writes on", _TARGETS_SHARE + _DRAFTS_SHARE * number / len(asked))
            for cut in extent.cuts:
                answer = write_on(bench, each, task.prompt, task.own[:cut], extent.most)
                written[each.name, cut].append(answer)
            await asyncio.sleep(0)
    return written


def grade_all(asked: Sequence[Asked], answers: Sequence[Sequence[str]]) -> list[Grades]:
    """Of each list of answers to all tasks. The same answer is judged once."""
    distinct = list(dict.fromkeys((place, text) for texts in answers for place, text in enumerate(texts)))
    verdicts = grade([(asked[place].task, text) for place, text in distinct]).verdicts
    verdict = dict(zip(distinct, verdicts, strict=True))
    return [Grades(tuple(verdict[place, text] for place, text in enumerate(texts))) for texts in answers]


def agreed(written: Sequence[Written], asked: Sequence[Asked], cut: int) -> list[int]:
    """How far each goes as the target does, in tokens behind the cut."""
    return [common_prefix(each.tokens, task.own) - cut for each, task in zip(written, asked, strict=True)]
