"""Word problems, worked out again from the text of the answer alone."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice

from training.demo.talks.categories import stream
from training.demo.talks.talk import Talk
from training.demo.talks.word_problems import CATEGORY

SUM = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")
WORKED = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__}


@cache
def tasks() -> list[Talk]:
    return list(islice(stream(CATEGORY.tasks, "worked"), 3000))


@cache
def held_out() -> list[Talk]:
    assert CATEGORY.held_out is not None
    return list(islice(stream(CATEGORY.held_out, "worked"), 1000))


@cache
def drawn() -> list[Talk]:
    return tasks() + held_out()


def test_every_line_of_working_is_true() -> None:
    for talk in drawn():
        for left, sign, right, result in SUM.findall(talk.turns[0][1]):
            assert WORKED[sign](int(left), int(right)) == int(result)
            assert sign != "/" or int(left) % int(right) == 0


def test_the_working_uses_what_is_known_and_ends_in_the_result() -> None:
    """Operands come from the story, from "twice", "half" and "doubles", or from an earlier line."""
    for talk in drawn():
        ask, answer = talk.turns[0]
        known = {int(number) for number in re.findall(r"\d+", ask)} | {2, 3}
        lines = SUM.findall(answer)
        for left, _, right, result in lines:
            assert {int(left), int(right)} <= known
            known.add(int(result))
        assert (lines[-1][3],) == talk.result


def test_numbers_stay_modest() -> None:
    numbers = [int(number) for talk in drawn() for number in re.findall(r"\d+", talk.turns[0][1])]
    assert max(numbers) < 1000
    assert not any(re.search(r"= -|-\d", talk.turns[0][1]) for talk in drawn())


def test_most_problems_take_two_to_four_steps() -> None:
    steps = [len(SUM.findall(talk.turns[0][1])) for talk in tasks()]
    assert sum(2 <= count <= 4 for count in steps) > 0.9 * len(steps)


def test_the_layout_follows_the_request() -> None:
    for talk in drawn():
        ask, answer = talk.turns[0]
        brief, explained = ask.endswith("Keep it brief."), ask.endswith("Explain each step.")
        assert answer.startswith("1. ") == ask.endswith("Number the steps.")
        assert answer.startswith("First, we find") == explained
        assert ("\n" in answer) == (len(SUM.findall(answer)) > 0 and not brief and not explained)
        assert ("Answer: " in answer) == brief


def test_no_family_is_both_trained_on_and_held_out() -> None:
    trained, held = ({talk.family for talk in each} for each in (tasks(), held_out()))
    assert len(trained) == 5
    assert len(held) == 3
    assert not trained & held
