"""The task generators: determinism, self-consistency, splits and size of the instance space."""

from __future__ import annotations

import ast
import re
from itertools import islice, pairwise

import pytest

from training.demo.check import code_of, function_name, passes
from training.demo.instance import PLURALS
from training.demo.registry import HELD_OUT, families, held_out_families, training_families
from training.demo.render import Instance, make_instance
from training.demo.split import (
    held_out_family_instances,
    held_out_instances,
    is_held_out_prompt,
    training_instances,
)


def holds(code: str, tests: tuple[str, ...]) -> bool:
    """Judge trusted code in this process, which is a hundred times faster than a process of its own."""
    scope: dict[str, object] = {}
    exec(code, scope)
    scope["candidate"] = scope[str(function_name(code))]
    try:
        exec("\n".join(tests), scope)
    except AssertionError:
        return False
    return True


def test_equal_seeds_give_equal_instances() -> None:
    assert list(islice(training_instances("a"), 300)) == list(islice(training_instances("a"), 300))
    assert list(islice(training_instances("a"), 30)) != list(islice(training_instances("b"), 30))


@pytest.mark.parametrize("name", sorted(families()))
def test_reference_answers_pass_their_own_tests(name: str) -> None:
    for seed in range(12):
        instance = make_instance(name, families()[name], f"{name}:{seed}")
        assert instance.code in code_of(instance.answer)
        assert len(instance.tests) >= 5
        assert holds(instance.code, instance.tests)


@pytest.mark.parametrize("name", sorted(families()))
def test_tests_tell_another_instance_apart(name: str) -> None:
    """The code of a family's other instances must fail most of the time, unless the family has only one program."""
    instances = [make_instance(name, families()[name], f"apart:{seed}") for seed in range(12)]
    bodies = {body_of(instance): instance for instance in instances}
    if len(bodies) < 8:
        return
    distinct = list(bodies.values())
    fooled = sum(holds(other.code, one.tests) for one, other in pairwise(distinct))
    assert fooled <= len(distinct) // 2


def body_of(instance: Instance) -> str:
    """The program without the names it was given, so that renamed copies count once."""
    function = ast.parse(instance.code).body[0]
    assert isinstance(function, ast.FunctionDef)
    body = "\n".join(map(ast.unparse, function.body)).split('"""')[-1]
    for argument in function.args.args:
        body = re.sub(rf"\b{argument.arg}\b", "given", body)
        body = re.sub(rf"\b{PLURALS.get(argument.arg, 'item')}\b", "each", body)
    return body


def test_at_least_a_fifth_of_the_families_is_held_out() -> None:
    assert set(families()) >= HELD_OUT
    assert len(held_out_families()) >= 0.2 * len(families())
    assert not set(training_families()) & HELD_OUT


def test_splits_are_disjoint() -> None:
    trained = list(islice(training_instances("t"), 3000))
    held = list(islice(held_out_instances("h"), 300))
    families_held = list(islice(held_out_family_instances("h"), 300))
    assert not {item.prompt for item in trained} & {item.prompt for item in held}
    assert not {item.family for item in trained} & {item.family for item in families_held}
    assert all(is_held_out_prompt(item.prompt) for item in held)
    assert {item.family for item in held} <= set(training_families())


def test_the_instance_space_is_large() -> None:
    prompts = [item.prompt for item in islice(training_instances("space"), 4000)]
    repeated = len(prompts) - len(set(prompts))
    pairs = len(prompts) * (len(prompts) - 1) / 2
    assert repeated == 0 or pairs / repeated > 1e5, "a birthday estimate of the effective number of prompts"


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("Sure.\n\n```python\ndef f(x):\n    return x + 1\n\n\nprint(f(1))\n```\n\nDone.", True),
        ("def f(x):\n    return x + 1", True),
        ("```python\ndef f(x):\n    return x - 1\n```", False),
        ("```python\ndef f(x):\n    while True:\n        pass\n```", False),
        ("```python\ndef f(x) return x\n```", False),
        ("```python\nimport os\nos._exit(3)\n```", False),
        ("I cannot do that.", False),
        ("", False),
    ],
)
def test_the_checker_judges_answers(answer: str, right: bool) -> None:
    assert passes(answer, ("assert candidate(1) == 2", "assert candidate(-1) == 0"), time_limit=0.5) is right
