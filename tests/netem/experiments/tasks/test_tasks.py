"""Answers become programs, and prompts the tokens that a target is asked with."""

from functools import partial
from typing import Any

import pytest

from netem.experiments.one_device.prompts import BenchmarkPrompt
from netem.experiments.tasks.sandbox import ProgramOutcome, run
from netem.experiments.tasks.tasks import Task, candidate_program, prompt_tokens, tasks_of

TESTS = ("assert candidate(2) == 4", "assert candidate(0) == 0")
RIGHT = "def helper(x):\n    return x\n\ndef double(x):\n    return 2 * helper(x)"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (RIGHT, ""),
        (f"Here it is:\n```python\n{RIGHT}\n```\nAnd another:\n```python\n1 / 0\n```", ""),
        (RIGHT.replace("2 *", "3 *"), "AssertionError"),
        ("double = lambda x: 2 * x", "NameError: the answer has no function"),
        ("I would rather not.", "SyntaxError: "),
        ("", "NameError: the answer has no function"),
    ],
)
def test_the_last_function_of_the_first_fenced_block_is_judged(answer: str, error: str) -> None:
    verdict = run(candidate_program(TESTS, answer))
    assert verdict.outcome is (ProgramOutcome.FAILED if error else ProgramOutcome.PASSED)
    assert verdict.error.startswith(error)


@pytest.mark.parametrize("repeated", ["-", "not ", "(", "x.a", "x()"])
def test_an_answer_that_repeats_itself_still_becomes_a_program(repeated: str) -> None:
    program = candidate_program(TESTS, RIGHT + "\n" + repeated * 20_000)
    assert run(program).outcome is not ProgramOutcome.PASSED


def test_prompts_without_tests_are_no_tasks() -> None:
    prompts = [BenchmarkPrompt("chat", "", "Hello"), BenchmarkPrompt("code", "", "Double it.", TESTS)]
    (task,) = tasks_of(prompts)
    assert (task.name, task.prompt, task.category) == ("code-0", "Double it.", "code")
    assert task.program(RIGHT) == [RIGHT, "candidate = double", *TESTS]


class LetterTokenizer:
    """Every character is a token; its template opens with `<`."""

    chat_template = "a template"

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> list[int]:
        return [ord(letter) for message in messages for letter in f"<{message['role']}:{message['content']}"]


@pytest.mark.parametrize(("raw", "text"), [(False, "<user:ask"), (True, "ask")])
def test_raw_prompts_pass_the_template_by(raw: bool, text: str) -> None:
    task = Task("name", "ask", "code", partial(candidate_program, TESTS), raw)
    assert "".join(map(chr, prompt_tokens(LetterTokenizer(), task))) == text  # type: ignore[arg-type]
