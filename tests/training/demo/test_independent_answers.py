"""What tasks mean, checked against expectations written by hand rather than computed by the generator."""

from __future__ import annotations

import math
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
    for seed in range(3000):
        instance = make_instance(family, families()[family], f"meaning:{seed}")
        found = re.search(wording, instance.prompt)
        if found:
            scope: dict[str, object] = {}
            exec(instance.code, scope)
            function = scope[str(function_name(instance.code))]
            assert callable(function)
            return found, function
    raise AssertionError(f"{family} never says {wording!r}")


LETTERS = ["Banana Eis", "", "a1 B2 c3"]
GRID = [[[3, -1], [4, 8]], [[2]], [[5, 0, 6], [1, 2, 3]]]
STOCK = [{}, {"a": 3, "b": -1}, {"tea": 10, "milk": 4, "oil": 10}]

Case = tuple[str, str, list, Callable[[list[int], object], object]]

CASES: list[Case] = [
    ("count_numbers", r" the number.*numbers greater than (\d+) in a", NUMBERS,
     lambda k, v: len([x for x in v if x > k[0]])),
    ("sum_numbers", r"of at most (\d+) in a list[.?]", NUMBERS, lambda k, v: sum(x for x in v if x <= k[0])),
    ("multiply_numbers", r"even numbers in a list[.?]", NUMBERS,
     lambda k, v: math.prod(x for x in v if x % 2 == 0)),
    ("filter_numbers", r"numbers between (\d+) and (\d+) in", NUMBERS,
     lambda k, v: [x for x in v if k[0] <= x <= k[1]]),
    ("remove_numbers", r"numbers divisible by (\d+) from", NUMBERS, lambda k, v: [x for x in v if x % k[0]]),
    ("map_numbers", r"reduced by (\d+)", NUMBERS, lambda k, v: [x - k[0] for x in v]),
    ("last_numbers", r"list that is even, or", NUMBERS, lambda k, v: ([None] + [x for x in v if x % 2 == 0])[-1]),
    ("smallest_number", r"list that is odd, or", NUMBERS, lambda k, v: min((x for x in v if x % 2), default=None)),
    ("running_smallest", r"numbers in a list[.?]", NUMBERS, lambda k, v: [min(v[: i + 1]) for i in range(len(v))]),
    ("running_changed_total", r"of the numbers in a list, each doubled", NUMBERS,
     lambda k, v: [2 * sum(v[: i + 1]) for i in range(len(v))]),
    ("neighbour_sums", r"numbers in a list[.?]", NUMBERS, lambda k, v: [v[i] + v[i + 1] for i in range(len(v) - 1)]),
    ("filter_words", r"words longer than (\d+) characters in", WORDS, lambda k, v: [w for w in v if len(w) > k[0]]),
    ("filter_map_words", r"upper case words in a list, each reversed", WORDS,
     lambda k, v: [w[::-1] for w in v if w.isupper()]),
    ("any_word", r"any word in a list has length (\d)[.?]", WORDS, lambda k, v: k[0] in map(len, v)),
    ("index_of_word", r"first word in a list that has length (\d), or", WORDS,
     lambda k, v: ([len(w) for w in v] + [k[0]]).index(k[0]) if k[0] in map(len, v) else -1),
    ("shortest_word", r"shortest word in a list, the", WORDS, lambda k, v: sorted(v, key=len)[0]),
    ("join_changed_words", r"the words in a list, each reversed, with a dash", WORDS,
     lambda k, v: "-".join(w[::-1] for w in v)),
    ("map_text_words", r"the words in a text, each reversed", LETTERS,
     lambda k, v: " ".join(w[::-1] for w in v.split())),
    ("remove_vowels", r"vowels", LETTERS, lambda k, v: re.sub("(?i)[aeiou]", "", v)),
    ("sum_of_multiples", r"multiples of (\d+) below a limit[.?]", [0, 7, 40], lambda k, v: sum(range(0, v, k[0]))),
    ("largest_digit", r"largest digit of a non-negative number[.?]", [0, 507, 81], lambda k, v: max(map(int, str(v)))),
    ("key_of_smallest", r"smallest", STOCK, lambda k, v: sorted(v, key=v.get)[0] if v else None),
    ("count_entries", r"value is even[.?]", STOCK, lambda k, v: sum(1 - x % 2 for x in v.values())),
    ("all_entries", r"every value in a dictionary is positive[.?]", STOCK, lambda k, v: min(v.values(), default=1) > 0),
    ("group_keys", r"whose value is odd and the rest", STOCK,
     lambda k, v: ([a for a in v if v[a] % 2], [a for a in v if v[a] % 2 == 0])),
    ("row_largest", r"maximum", GRID, lambda k, v: [sorted(row)[-1] for row in v]),
    ("count_matrix_cells", r"even numbers in a matrix[.?]", GRID,
     lambda k, v: sum(1 - x % 2 for row in v for x in row)),
    ("either_check", r"number is even or is negative", [4, 3, -3, -4, 0], lambda k, v: v in (4, -3, -4, 0)),
    ("column_smallest", r"minimum", GRID, lambda k, v: [min(row[i] for row in v) for i in range(len(v[0]))]),
    ("transpose_matrix", r"columns", [[[1, 2], [3, 4]]], lambda k, v: [list(c) for c in zip(*v, strict=True)]),
    ("clamp_number", r"from (\d+) to (\d+)", [-5, 4, 99], lambda k, v: min(max(v, k[0]), k[1])),
]  # fmt: skip


@pytest.mark.parametrize(("family", "wording", "inputs", "meaning"), CASES, ids=[case[0] for case in CASES])
def test_code_does_what_the_prompt_says(
    family: str, wording: str, inputs: list, meaning: Callable[[list[int], object], object]
) -> None:
    found, function = drawn(family, wording)
    constants = [int(text) for text in found.groups()]
    for value in inputs:
        assert function(value) == meaning(constants, value)
