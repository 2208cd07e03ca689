"""A task for a target that writes Python: its prompt, and the program that judges an answer to it.

What may live here: prompts as a person writes them and the programs made of answers. It may not know the sandbox, or
how answers came to be.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from client.text import chat_tokens, raw_tokens
from netem.experiments.one_device.prompts import BenchmarkPrompt
from training.demo.check import code_of, function_name

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

Program = Sequence[str]
"""Sources that are executed one after another in one module; it passes if none of them raises."""


@dataclass(frozen=True)
class Task:
    """program: makes the test program of any answer. prompt: a message for the target's chat template or, with `raw`,
    text
    that the target continues. stops: the text behind the first of them is not judged, so that the target may stop
    there.
    """

    name: str
    prompt: str
    category: str
    program: Callable[[str], Program]
    raw: bool = False
    stops: tuple[str, ...] = ()


def prompt_tokens(tokenizer: "Tokenizer", task: Task) -> list[int]:
    """Token ids of the prompt. Raises MisuseError where the task needs a chat template and the target has none."""
    if task.raw:
        return raw_tokens(tokenizer, task.prompt)
    return chat_tokens(tokenizer, [{"role": "user", "content": task.prompt}])


def tasks_of(prompts: Iterable[BenchmarkPrompt]) -> list[Task]:
    """The tasks of the prompts that have tests, named by category and number."""
    tested = [prompt for prompt in prompts if prompt.tests]
    return [
        Task(f"{prompt.category}-{index}", prompt.text, prompt.category, partial(candidate_program, prompt.tests))
        for index, prompt in enumerate(tested)
    ]


def candidate_program(tests: Sequence[str], answer: str) -> Program:
    """The code of the answer, then tests that call its last function as `candidate`."""
    code = code_of(answer)
    return [code, _naming_candidate(code), *tests]


def _naming_candidate(code: str) -> str:
    try:
        name = function_name(code)
    except (RecursionError, MemoryError):  # a target that repeats itself nests deeper than the parser goes
        name = None
    return f"candidate = {name}" if name else "raise NameError('the answer has no function')"
