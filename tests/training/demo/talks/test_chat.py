"""Chat answers give what was asked for: so many steps, the fitting choice, what was said before."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice

from training.demo.talks.categories import talks
from training.demo.talks.chat_steps import HOW_TO
from training.demo.talks.chat_topics import PAIRS
from training.demo.talks.talk import Talk

COUNTS = {"three": 3, "four": 4, "five": 5}


@cache
def drawn() -> list[Talk]:
    return list(islice(talks("chat", "asked"), 4000))


def turns() -> list[tuple[str, str]]:
    return [turn for talk in drawn() for turn in talk.turns]


def test_as_many_steps_as_asked_for() -> None:
    counted = 0
    for ask, answer in turns():
        wanted = re.search(r"in (three|four|five) steps", ask)
        if wanted and "No list" not in ask:
            numbers = re.findall(r"^(\d)\. ", answer, re.MULTILINE)
            assert numbers == [str(n + 1) for n in range(COUNTS[wanted.group(1)])]
            counted += 1
        if "No list" in ask:
            assert "\n" not in answer
    assert counted > 100


def test_steps_belong_to_the_task_and_end_as_it_does() -> None:
    for ask, answer in turns():
        tasks = [task for task in HOW_TO if task in ask]
        if len(tasks) == 1 and "\n\n1. " in answer:
            steps = re.findall(r"^\d\. (.*)$", answer, re.MULTILINE)
            assert set(steps) <= set(HOW_TO[tasks[0]])
            assert steps[-1] == HOW_TO[tasks[0]][-1]


def test_the_choice_fits_the_need_whatever_the_order() -> None:
    orders = set()
    for ask, answer in turns():
        for (one, two), needs in PAIRS.items():
            for need, (which, why) in needs.items():
                if need in ask and re.search(rf"\b{one}\b", ask) and re.search(rf"\b{two}\b", ask):
                    best = (one, two)[which]
                    assert best in answer.split(why)[0]
                    orders.add(ask.index(one) < ask.index(two))
    assert orders == {True, False}


def of(family: str) -> list[Talk]:
    found = [talk for talk in drawn() if talk.family == family]
    assert len(found) > 100
    return found


def test_what_was_said_before_is_remembered_and_what_was_not_is_not_made_up() -> None:
    unknown = 0
    for talk in of("remembered"):
        said, answer = talk.turns[0][0], talk.turns[-1][1]
        if answer == "I do not know that, because you have not told me.":
            unknown += 1
            continue
        last = re.findall(r"\w+", answer.removesuffix(" years old."))[-1]
        assert re.search(rf"\b{last}\b", said)
    assert 0.1 < unknown / len(of("remembered")) < 0.4


def test_the_corrected_fact_counts() -> None:
    for talk in of("corrected"):
        assert talk.turns[1][1] == f"I see. {talk.turns[-1][1]}"
        assert talk.turns[-1][1] not in talk.turns[0][1]


def test_a_changed_plan_differs_in_what_was_to_change() -> None:
    for talk in of("plan changed"):
        (_, before), (change, after) = talk.turns
        old, new = before.splitlines(), after.splitlines()
        changed = [number for number, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
        assert len(changed) == (2 if change.startswith("Swap") else 1)
        if not change.startswith("Swap"):
            word = new[changed[0]].rstrip(":").split()[-1]
            assert word in change


def test_shorter_is_shorter_and_part_of_what_was_said() -> None:
    for talk in of("shorter"):
        (_, long), (_, short) = talk.turns
        assert len(short) < len(long)
        assert all(re.sub(r"^\d\. ", "", line) in long for line in short.splitlines())


def test_the_step_that_is_asked_for_is_said_again() -> None:
    for talk in of("step asked for"):
        (_, steps), (_, again) = talk.turns
        word, step = re.match(r"The (\w+) step: (.*)", again).groups()  # type: ignore[union-attr]
        number = ("first", "second", "third", "fourth", "fifth").index(word) + 1
        assert f"\n{number}. {step}" in steps


def test_what_nobody_told_is_not_known() -> None:
    assert all(talk.turns[0][1].startswith("I do not know ") for talk in of("not told"))


def test_a_greeting_is_returned() -> None:
    for ask, answer in turns():
        if ask.startswith(("Good morning.", "Good evening.")):
            assert answer.startswith(ask[:13])
