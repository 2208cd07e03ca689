"""What tasks mean, checked against expectations written by hand rather than computed by the generator."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from training.demo.check import function_name
from training.demo.registry import families
from training.demo.render import make_instance

NUMBERS = [[], [3, -4, 10, 7, 7, 0], [12, 5, 6, -9], [1]]
WORDS = [["apple", "Fig", "TEA", "pear", "a"], ["noon", "moon"]]


def drawn(family: str, wording: str) -> tuple[re.Match[str], Callable[..., object]]:
    """The first instance of a family whose prompt matches `wording`, and its function."""
    for seed in range(600):
        instance = make_instance(family, families()[family], f"meaning:{seed}")
        found = re.search(wording, instance.prompt)
        if found:
            scope: dict[str, object] = {}
            exec(instance.code, scope)
            function = scope[str(function_name(instance.code))]
            assert callable(function)
            return found, function
    raise AssertionError(f"{family} never says {wording!r}")


CASES: list[tuple[str, str, list, Callable[[list[int], object], object]]] = [
    ("count_numbers", r"greater than (\d+)", NUMBERS, lambda k, v: len([x for x in v if x > k[0]])),
    ("sum_numbers", r"at most (\d+)", NUMBERS, lambda k, v: sum(x for x in v if x <= k[0])),
    ("filter_numbers", r"between (\d+) and (\d+)", NUMBERS, lambda k, v: [x for x in v if k[0] <= x <= k[1]]),
    ("remove_numbers", r"divisible by (\d+)", NUMBERS, lambda k, v: [x for x in v if x % k[0]]),
    ("map_numbers", r"reduced by (\d+)", NUMBERS, lambda k, v: [x - k[0] for x in v]),
    ("last_number", r"that is even", NUMBERS, lambda k, v: ([None] + [x for x in v if x % 2 == 0])[-1]),
    ("smallest_number", r"that is odd", NUMBERS, lambda k, v: min((x for x in v if x % 2), default=None)),
    ("running_smallest", r"smallest", NUMBERS, lambda k, v: [min(v[: i + 1]) for i in range(len(v))]),
    ("filter_words", r"longer than (\d+)", WORDS, lambda k, v: [w for w in v if len(w) > k[0]]),
    ("shortest_word", r"shortest", WORDS, lambda k, v: min(v, key=len)),
    ("remove_vowels", r"vowels", ["Banana Eis", ""], lambda k, v: re.sub("(?i)[aeiou]", "", v)),
    ("sum_of_multiples", r"multiples of (\d+)", [0, 7, 40], lambda k, v: sum(range(0, v, k[0]))),
    ("largest_digit", r"largest", [0, 507, 81], lambda k, v: max(map(int, str(v)))),
    ("key_of_smallest", r"smallest", [{}, {"a": 3, "b": -1}], lambda k, v: min(v, key=v.get) if v else None),
    ("transpose_matrix", r"columns", [[[1, 2], [3, 4]]], lambda k, v: [list(c) for c in zip(*v, strict=True)]),
    ("clamp_number", r"from (\d+) to (\d+)", [-5, 4, 99], lambda k, v: min(max(v, k[0]), k[1])),
]


@pytest.mark.parametrize(("family", "wording", "inputs", "meaning"), CASES, ids=[case[0] for case in CASES])
def test_code_does_what_the_prompt_says(
    family: str, wording: str, inputs: list, meaning: Callable[[list[int], object], object]
) -> None:
    found, function = drawn(family, wording)
    constants = [int(text) for text in found.groups()]
    for value in inputs:
        assert function(value) == meaning(constants, value)
