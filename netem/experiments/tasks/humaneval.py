"""HumanEval (Chen et al. 2021, "Evaluating Large Language Models Trained on Code") from its own file, as tasks.

What may live here: the file's format, and its two kinds of prompt: base models continue the head of a function, chat
models write the whole function. It may not know the sandbox.
"""

import ast
import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from common.protocol.errors import MisuseError
from netem.experiments.tasks.tasks import Program, Task
from training.demo.check import code_of

CATEGORY = "humaneval"
STOPS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
"""Texts that end the function in a continuation, as in the paper."""


@dataclass(frozen=True, slots=True)
class HumanEvalProblem:
    """head: ends in the signature and docstring of `entry_point`. before: the part of it before that function. test:
    source that defines `check(candidate)`."""

    name: str
    before: str
    head: str
    entry_point: str
    solution: str
    test: str


def read_problems(file: Path) -> list[HumanEvalProblem]:
    """Reads `.jsonl` or `.jsonl.gz`. Raises MisuseError, with the line's number, where one has not the published
    format."""
    try:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
            problems = [_problem(file, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise MisuseError(f"{file} cannot be read as HumanEval's JSON lines: {error}") from error
    if not problems:
        raise MisuseError(f"{file} has no problem in it; HumanEval has one on each line")
    return problems


def completion_task(problem: HumanEvalProblem) -> Task:
    """For base models: the answer continues the head."""
    return Task(problem.name, problem.head, CATEGORY, partial(_completed, problem), raw=True, stops=STOPS)


def chat_task(problem: HumanEvalProblem) -> Task:
    """For chat models: the answer is the function, judged with what precedes it in the head in front."""
    prompt = (
        f"Complete the Python function `{problem.entry_point}`. Answer with the whole function in one fenced code "
        f"block.\n\n```python\n{problem.head.strip()}\n```"
    )
    return Task(problem.name, prompt, CATEGORY, partial(_written, problem))


def until_stop(completion: str) -> str:
    """The text before the first of `STOPS`."""
    return completion[: min((place for stop in STOPS if (place := completion.find(stop)) >= 0), default=None)]


def _completed(problem: HumanEvalProblem, answer: str) -> Program:
    return [problem.head + until_stop(answer), *_check(problem)]


def _written(problem: HumanEvalProblem, answer: str) -> Program:
    # Apart, so that the answer may begin with `from __future__`.
    return [problem.before, code_of(answer), *_check(problem)]


def _check(problem: HumanEvalProblem) -> Program:
    return [problem.test, f"check({problem.entry_point})"]


def _problem(file: Path, number: int, line: str) -> HumanEvalProblem:
    try:
        fields = _object(line)
        head, entry_point, test = (_text(fields, name) for name in ("prompt", "entry_point", "test"))
        if not any(function.name == "check" for function in _functions(test, "test")):
            raise ValueError("its 'test' defines no function 'check'")
        return HumanEvalProblem(
            name=_text(fields, "task_id"),
            before=_before(head, entry_point),
            head=head,
            entry_point=entry_point,
            solution=_text(fields, "canonical_solution"),
            test=test,
        )
    except ValueError as error:
        raise MisuseError(
            f"line {number} of {file} is no problem of HumanEval: {error}; fetch the file again"
        ) from error


def _object(line: str) -> Mapping[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON") from error
    if not isinstance(fields, dict):
        raise ValueError("it is no JSON object")
    return fields


def _text(fields: Mapping[str, Any], name: str) -> str:
    if not isinstance(fields.get(name), str):
        raise ValueError(f"it has no text '{name}'")
    return str(fields[name])


def _before(head: str, entry_point: str) -> str:
    for function in _functions(head, "prompt"):
        if function.name == entry_point:
            return "\n".join(head.split("\n")[: function.lineno - 1])
    raise ValueError(f"its 'prompt' defines no function '{entry_point}'")


def _functions(source: str, field: str) -> list[ast.FunctionDef]:
    try:
        return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"its '{field}' is no Python") from error
