"""Exercises in arithmetic, worked out again from the question alone."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice

import pytest

from training.demo.talks import arithmetic
from training.demo.talks.categories import stream
from training.demo.talks.talk import Talk

SUM = re.compile(r"\d+ [-+*/] \d+")
SPOKEN = {"plus": "+", "minus": "-", "times": "*", "divided by": "/"}
WORDS = {arithmetic.words(number): number for number in range(200)}
STEPS = (
    (r"(?:Add (\d+)|Make it (\d+) more)", "+"),
    (r"(?:Take away (\d+)|Subtract (\d+)|Make it (\d+) fewer)", "-"),
    (r"(?:Multiply it by (\d+)|(Double) it)", "*"),
    (r"(?:Divide it by (\d+)|(Halve) it)", "/"),
)


@cache
def drawn() -> list[Talk]:
    return list(islice(stream(arithmetic.EXERCISES, "worked"), 3000))


def of(family: str) -> list[Talk]:
    found = [talk for talk in drawn() if talk.family == family]
    assert len(found) > 100
    return found


def value(expression: str) -> int:
    left, sign, right = expression.split()
    operations = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__}
    return operations[sign](int(left), int(right))


@pytest.mark.parametrize("family", ["single sum", "several sums"])
def test_each_sum_that_is_asked_is_answered(family: str) -> None:
    for talk in of(family):
        ask, answer = talk.turns[0]
        assert answer == "\n".join(f"{it} = {value(it)}" for it in SUM.findall(ask))


def test_sums_in_words_are_understood() -> None:
    for talk in of("sum in words"):
        asked = re.sub(r"^(What|How much) is ", "", talk.turns[0][0]).rstrip("?").lower()
        left, spoken, right = re.split(rf" ({'|'.join(SPOKEN)}) ", asked)
        assert talk.result == (str(value(f"{WORDS[left]} {SPOKEN[spoken]} {WORDS[right]}")),)


def test_a_chain_ends_where_its_steps_lead() -> None:
    for talk in of("chain"):
        start, *told, _ = re.split(r"(?<=[.?]) ", talk.turns[0][0])
        now = int(re.findall(r"\d+", start)[0])
        for sentence in told:
            sign, found = next((sign, m) for form, sign in STEPS if (m := re.match(form, sentence)))
            named = next(group for group in found.groups() if group)
            now = value(f"{now} {sign} {named if named.isdigit() else 2}")
        assert talk.result == (str(now),)


def test_a_comparison_names_the_larger_number_and_the_gap() -> None:
    for talk in of("comparison"):
        one, other = map(int, re.findall(r"\d+", talk.turns[0][0]))
        assert talk.turns[0][1].startswith(f"{max(one, other)} is larger.")
        assert talk.result == (str(abs(one - other)),)


def test_nothing_is_negative_and_division_leaves_no_remainder() -> None:
    for talk in drawn():
        for expression in SUM.findall(talk.turns[0][1]):
            left, sign, right = expression.split()
            assert value(expression) >= 0
            assert sign != "/" or int(left) % int(right) == 0
