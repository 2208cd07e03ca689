"""`disconnect`: which tasks still pass when the link is cut for good in mid-answer and the draft model continues alone
(Table 4 of Mixture of Attentions), against the target's own answers and against a client without a draft model.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from safetensors import safe_open

from common.draft_models.directory import read_draft_depths
from common.protocol.errors import MisuseError
from common.protocol.prefix import common_prefix
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.offline.answered_tasks import AnsweredTask, find_tasks, long_answers
from netem.experiments.offline.disconnect_report import CutResult, DraftResult, make_report
from netem.experiments.offline.offline_drafting import OfflineAnswer, continue_offline
from netem.experiments.one_device.bench import Bench, open_bench
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths
from netem.experiments.tasks.grading import Grades, grade
from netem.experiments.tasks.tasks import Task

_TARGETS_SHARE = 0.3  # of the time of a run; drafts and grading share the rest
_DRAFTS_SHARE = 0.5

_SERVER_FILES = "exporter"
_FLOATS = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class DisconnectWorkload:
    """`tasks` with answers of `least` to `most` tokens, each cut after each of `cuts` tokens."""

    tasks: int
    least: int
    most: int
    cuts: tuple[int, ...]


FULL = DisconnectWorkload(120, least=120, most=384, cuts=(10, 25, 50))
QUICK = DisconnectWorkload(8, least=120, most=384, cuts=(10, 25, 50))

_Key = tuple[str, int]
"""The name of a draft model, and the number of tokens before the cut."""


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    paths, drafts = find_model_paths(request), find_drafts(request)
    with open_bench(paths, drafts) as bench:
        answered = await _ask_target(bench, find_tasks(request, paths, bench), workload, advance)
        written = await _write_all(bench, drafts, answered, workload, advance)
        texts = {key: [bench.text(each.tokens) for each in answers] for key, answers in written.items()}
        own = [bench.text(each.own) for each in answered]
        begun = {cut: [bench.text(each.own[:cut]) for each in answered] for cut in workload.cuts}
    advance("judging", _TARGETS_SHARE + _DRAFTS_SHARE)
    graded = await asyncio.to_thread(grade_all, answered, [*texts.values(), own, *begun.values()])
    of_drafts = dict(zip(texts, graded, strict=False))
    of_target, *of_begun = graded[len(texts) :]
    cuts = {
        key: CutResult(grades, written[key], agreed(written[key], answered, key[1]))
        for key, grades in of_drafts.items()
    }
    kept = [
        DraftResult(each.name, each.depth, own_parameters(each), {cut: cuts[each.name, cut] for cut in workload.cuts})
        for each in drafts
    ]
    return make_report(kept, of_target, dict(zip(workload.cuts, of_begun, strict=True)), workload.least)


async def _ask_target(
    bench: Bench, tasks: Sequence[Task], workload: DisconnectWorkload, advance: Advance
) -> list[AnsweredTask]:
    answered: list[AnsweredTask] = []
    for each in long_answers(bench, tasks, workload.tasks, workload.least, workload.most):
        advance("the target's own answers", _TARGETS_SHARE * len(answered) / workload.tasks)
        answered.append(each)
        await asyncio.sleep(0)
    if not answered:
        raise MisuseError(f"the target answers none of these tasks in {workload.least} tokens or more: nothing to cut")
    return answered


async def _write_all(
    bench: Bench,
    drafts: Sequence[ComparedDraft],
    answered: Sequence[AnsweredTask],
    workload: DisconnectWorkload,
    advance: Advance,
) -> dict[_Key, list[OfflineAnswer]]:
    written: dict[_Key, list[OfflineAnswer]] = {(each.name, cut): [] for each in drafts for cut in workload.cuts}
    for number, task in enumerate(answered):
        for each in drafts:
            advance(f"{each.name} writes on", _TARGETS_SHARE + _DRAFTS_SHARE * number / len(answered))
            for cut in workload.cuts:
                answer = continue_offline(bench, each, task.prompt, task.own[:cut], workload.most)
                written[each.name, cut].append(answer)
            await asyncio.sleep(0)
    return written


def grade_all(answered: Sequence[AnsweredTask], answers: Sequence[Sequence[str]]) -> list[Grades]:
    """The grades of each list of answers to all tasks. Equal answers to a task are graded once."""
    distinct = list(dict.fromkeys((index, text) for texts in answers for index, text in enumerate(texts)))
    verdicts = grade([(answered[index].task, text) for index, text in distinct]).verdicts
    verdict = dict(zip(distinct, verdicts, strict=True))
    return [Grades(tuple(verdict[index, text] for index, text in enumerate(texts))) for texts in answers]


def agreed(written: Sequence[OfflineAnswer], answered: Sequence[AnsweredTask], cut: int) -> list[int]:
    """For each answer, the number of tokens after the cut that equal the target's, up to the first that does not."""
    return [common_prefix(each.tokens, task.own) - cut for each, task in zip(written, answered, strict=True)]


def own_parameters(draft: ComparedDraft) -> int:
    """The number of the draft model's own parameters on the client, read from the headers of its files.

    The target's layers, embedding and head that it runs are not counted; of several depths only its own is.
    """
    if draft.directory is None:
        return 0
    prefix = f"{draft.depth}." if read_draft_depths(draft.directory) else ""
    total = 0
    for file in sorted(draft.directory.glob("*.safetensors")):
        if file.stem.startswith(_SERVER_FILES):
            continue
        with safe_open(file, "pt") as tensors:
            names = tensors.keys()
            slices = [tensors.get_slice(name) for name in names if name.startswith(prefix)]
            total += sum(prod(each.get_shape()) for each in slices if each.get_dtype() in _FLOATS)
    return total
