"""The tasks whose answers are cut, with the target's own answers.

What may live here: the sources of tasks, and which answers are long enough. It may not know draft models or verdicts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from client.stops import before_stop
from common.protocol.errors import MisuseError
from netem.experiments.experiment import Request
from netem.experiments.one_device.bench import Bench
from netem.experiments.one_device.compared_drafts import ModelPaths
from netem.experiments.one_device.prompts import HELD_OUT_FAMILY, read_prompts
from netem.experiments.tasks.humaneval import chat_task, completion_task, read_problems
from netem.experiments.tasks.tasks import Task, prompt_tokens, tasks_of


@dataclass(frozen=True)
class AnsweredTask:
    """prompt: token ids. own: the target's own answer up to the first stop string, its end token included."""

    task: Task
    prompt: tuple[int, ...]
    own: tuple[int, ...]


def find_tasks(request: Request, paths: ModelPaths, bench: Bench) -> Sequence[Task]:
    """HumanEval where the request names a folder of public data; else the held-out tasks in the folder of models.

    Raises MisuseError where there are none.
    """
    if request.data is not None:
        as_task = chat_task if bench.tokenizer.chat_template else completion_task
        return [as_task(problem) for problem in read_problems(request.data / "eval" / "HumanEval.jsonl.gz")]
    tasks = tasks_of(prompt for prompt in read_prompts(paths.prompts) if prompt.split != HELD_OUT_FAMILY)
    if not tasks:
        raise MisuseError(f"{paths.prompts} has no prompt with tests; name HumanEval's folder with --data")
    return tasks


def long_answers(bench: Bench, tasks: Iterable[Task], count: int, least: int, most: int) -> Iterator[AnsweredTask]:
    """The first `count` tasks whose answers have at least `least` tokens; answers end at `most`."""
    return islice((answered for answered in _answered(bench, tasks, most) if len(answered.own) >= least), count)


def _answered(bench: Bench, tasks: Iterable[Task], most: int) -> Iterator[AnsweredTask]:
    for task in tasks:
        prompt = prompt_tokens(bench.tokenizer, task)
        own = bench.plain(prompt, most).rounds.tokens
        yield AnsweredTask(task, tuple(prompt), before_stops(bench, own, task.stops))


def before_stops(bench: Bench, tokens: tuple[int, ...], stops: Sequence[str]) -> tuple[int, ...]:
    """The shortest prefix with all text before the first stop string; all tokens where there is none."""
    wanted = before_stop(bench.text(tokens), stops)
    if wanted == bench.text(tokens):
        return tokens
    lengths = range(len(tokens) + 1)
    return tokens[: next(length for length in lengths if bench.text(tokens[:length]).startswith(wanted))]
