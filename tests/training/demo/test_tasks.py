"""The task generators: determinism, self-consistency, splits and size of the instance space."""

from __future__ import annotations

import ast
import re
import time
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
from training.demo.tasks.aggregates import AGGREGATES, Aggregate
from training.demo.tasks.grid import family_name, fits
from training.demo.tasks.grid_sources import ELEMENTS, Elements

FAMILIES = families()
COMPOSED = {family_name(aggregate, source) for source in ELEMENTS for aggregate in AGGREGATES}


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


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_reference_answers_pass_their_own_tests(name: str) -> None:
    for seed in range(4):
        instance = make_instance(name, FAMILIES[name], f"{name}:{seed}")
        assert instance.code in code_of(instance.answer)
        assert len(instance.tests) >= 5
        assert holds(instance.code, instance.tests)


@pytest.mark.parametrize("name", sorted(HELD_OUT | set(sorted(FAMILIES)[::8])))
def test_tests_tell_another_instance_apart(name: str) -> None:
    """The code of a family's other instances must fail most of the time, unless the family has only one program."""
    instances = [make_instance(name, FAMILIES[name], f"apart:{seed}") for seed in range(12)]
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


def test_held_out_families_are_families_and_apart() -> None:
    assert set(FAMILIES) >= HELD_OUT
    assert set(held_out_families()) == HELD_OUT
    assert not set(training_families()) & HELD_OUT


def held_out_pairs() -> list[tuple[Aggregate, Elements]]:
    return [
        (aggregate, source)
        for source in ELEMENTS
        for aggregate in AGGREGATES
        if fits(aggregate, source) and family_name(aggregate, source) in HELD_OUT
    ]


def test_a_held_out_pair_has_parts_that_training_shows_with_many_others() -> None:
    pairs = held_out_pairs()
    assert len(pairs) > 25
    for aggregate, source in pairs:
        partners = [each for each in ELEMENTS if fits(aggregate, each) and family_name(aggregate, each) not in HELD_OUT]
        uses = [each for each in AGGREGATES if fits(each, source) and family_name(each, source) not in HELD_OUT]
        assert len(partners) >= 3, aggregate.slug
        assert len(uses) >= 10 or source.slug == "entries", source.slug


def test_no_held_out_family_says_what_a_training_family_says() -> None:
    """The task sentence of every held-out instance, which its docstring repeats, is new as well."""
    seen = {summary(item) for item in islice(training_instances("said"), 8000)}
    for item in islice(held_out_family_instances("said"), 800):
        assert summary(item) == "" or summary(item) not in seen, item.prompt


def summary(instance: Instance) -> str:
    found = re.search(r'"""(.*?)(\.|\n|""")', instance.code)
    return found.group(1) if found else ""


def test_prompts_say_every_number_and_mark_that_the_code_uses() -> None:
    """Up to 2, and 10, numbers may belong to a word such as "odd" or "doubled"."""
    for item in islice(training_instances("said"), 6000):
        if item.family in COMPOSED:
            body = item.code.split("\n", 1)[1].split('"""')[-1]
            numbers = {text for text in re.findall(r"\d+", body) if int(text) > 2 and text != "10"}
            marks = set(re.findall(r"'(.)'", body))
            assert numbers <= set(re.findall(r"\d+", item.prompt)), item
            assert all(f"'{mark}'" in item.prompt for mark in marks), item


def test_streams_are_fast() -> None:
    """Far below what a quiet core does, so that only a change of order fails."""
    started = time.process_time()
    list(islice(training_instances("fast"), 1500))
    assert 1500 / (time.process_time() - started) > 1000


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
