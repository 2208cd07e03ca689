"""Problems are read as published, asked in two ways, and judged as their authors meant."""

import gzip
import json
from pathlib import Path

import pytest

from common.protocol.errors import MisuseError
from netem.experiments.tasks.humaneval import (
    STOPS,
    HumanEvalProblem,
    chat_task,
    completion_task,
    read_problems,
    until_stop,
)
from netem.experiments.tasks.sandbox import ProgramOutcome, run
from netem.experiments.tasks.tasks import Task
from tests.netem.experiments.tasks.problems import BACK, LINES, TRIPLE, written


@pytest.fixture
def problems(tmp_path: Path) -> list[HumanEvalProblem]:
    return read_problems(written(tmp_path, LINES))


def outcome(task: Task, answer: str) -> ProgramOutcome:
    return run(task.program(answer)).outcome


def test_plain_and_compressed_files_say_the_same(tmp_path: Path, problems: list[HumanEvalProblem]) -> None:
    compressed = tmp_path / "problems.jsonl.gz"
    compressed.write_bytes(gzip.compress("\n\n".join(LINES).encode()))
    assert read_problems(compressed) == problems
    assert [each.name for each in problems] == ["Own/0", "Own/1"]
    assert problems[0].before.strip() == "from typing import List"
    assert problems[1].before == BACK["prompt"].partition("\ndef back")[0]


def test_the_head_goes_as_it_is_to_base_models_and_fenced_to_chat_models(problems: list[HumanEvalProblem]) -> None:
    completion, chat = completion_task(problems[0]), chat_task(problems[0])
    assert (completion.prompt, completion.raw, completion.stops) == (TRIPLE["prompt"], True, STOPS)
    assert f"```python\n{TRIPLE['prompt'].strip()}\n```" in chat.prompt
    assert "`triple`" in chat.prompt
    assert (chat.raw, chat.stops) == (False, ())


def test_solutions_pass_and_empty_bodies_fail(problems: list[HumanEvalProblem]) -> None:
    for problem in problems:
        assert outcome(completion_task(problem), problem.solution) is ProgramOutcome.PASSED
        assert outcome(completion_task(problem), "") is ProgramOutcome.FAILED


@pytest.mark.parametrize("after", ["\nprint(triple(3))", "\nif True:\n    1 / 0", "\n# end\n1 /", "\ndef triple(_): 0"])
def test_what_follows_the_function_is_not_judged(problems: list[HumanEvalProblem], after: str) -> None:
    task = completion_task(problems[0])
    assert outcome(task, problems[0].solution + after) is ProgramOutcome.PASSED
    assert outcome(task, "    1 / 0" + after) is ProgramOutcome.FAILED


def test_a_completion_ends_at_its_first_stop() -> None:
    assert until_stop("    a\n    # b\n\nclass C:\n\ndef d") == "    a\n    # b\n"
    assert until_stop("    a") == "    a"


def test_a_chat_answer_has_the_head_in_front(problems: list[HumanEvalProblem]) -> None:
    whole = "def triple(numbers: List[int]) -> List[int]:\n    return [3 * each for each in numbers]"
    task = chat_task(problems[0])
    assert outcome(task, f"Sure!\n```python\n{whole}\n```\nDone.") is ProgramOutcome.PASSED
    assert outcome(task, f"```python\nfrom __future__ import annotations\n{whole}\n```") is ProgramOutcome.PASSED
    assert outcome(task, whole) is ProgramOutcome.PASSED
    assert outcome(task, f"```python\n{whole.replace('triple', 'other')}\n```") is ProgramOutcome.FAILED
    back = "def back(text):\n    return text[-1:] + text[:-1]"
    assert outcome(chat_task(problems[1]), f"```\n{back}\n```") is ProgramOutcome.PASSED


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "it is no JSON"),
        ("[]", "no JSON object"),
        (json.dumps({**TRIPLE, "test": None}), "no text 'test'"),
        (json.dumps({**TRIPLE, "prompt": "def triple("}), "'prompt' is no Python"),
        (json.dumps({**TRIPLE, "prompt": "-" * 20_000 + "1"}), "'prompt' is no Python"),
        (json.dumps({**TRIPLE, "entry_point": "double"}), "no function 'double'"),
        (json.dumps({**TRIPLE, "test": "assert True"}), "no function 'check'"),
        (json.dumps({name: text for name, text in TRIPLE.items() if name != "task_id"}), "no text 'task_id'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(MisuseError, match=f"line 3 of .*{reason}"):
        read_problems(written(tmp_path, [*LINES, line]))


def test_files_that_are_none(tmp_path: Path) -> None:
    for name, content in (("broken.jsonl.gz", b"no gzip"), ("short.jsonl.gz", gzip.compress(b"{}" * 99)[:-9])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(MisuseError, match="cannot be read"):
            read_problems(tmp_path / name)
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe")
    for absent in ("latin.jsonl", "absent.jsonl"):
        with pytest.raises(MisuseError, match="cannot be read"):
            read_problems(tmp_path / absent)
    with pytest.raises(MisuseError, match="no problem in it"):
        read_problems(written(tmp_path, [""]))
