"""Chat answers give what was asked for: so many steps, the fitting choice, what was said before."""

from __future__ import annotations

import re
from itertools import islice

from training.demo.talks.categories import talks
from training.demo.talks.chat_steps import HOW_TO
from training.demo.talks.chat_topics import PAIRS

DRAWN = list(islice(talks("chat", "asked"), 4000))
TURNS = [turn for talk in DRAWN for turn in talk.turns]
COUNTS = {"three": 3, "four": 4, "five": 5}


def test_as_many_steps_as_asked_for() -> None:
    counted = 0
    for ask, answer in TURNS:
        wanted = re.search(r"in (three|four|five) steps", ask)
        if wanted and "No list" not in ask:
            numbers = re.findall(r"^(\d)\. ", answer, re.MULTILINE)
            assert numbers == [str(n + 1) for n in range(COUNTS[wanted.group(1)])]
            counted += 1
        if "No list" in ask:
            assert "\n" not in answer
    assert counted > 100


def test_steps_belong_to_the_task_and_end_as_it_does() -> None:
    for ask, answer in TURNS:
        tasks = [task for task in HOW_TO if task in ask]
        if len(tasks) == 1 and "\n\n1. " in answer:
            steps = re.findall(r"^\d\. (.*)$", answer, re.MULTILINE)
            assert set(steps) <= set(HOW_TO[tasks[0]])
            assert steps[-1] == HOW_TO[tasks[0]][-1]


def test_the_choice_fits_the_need_whatever_the_order() -> None:
    orders = set()
    for ask, answer in TURNS:
        for (one, two), needs in PAIRS.items():
            for need, (which, why) in needs.items():
                if need in ask and re.search(rf"\b{one}\b", ask) and re.search(rf"\b{two}\b", ask):
                    best = (one, two)[which]
                    assert best in answer.split(why)[0]
                    orders.add(ask.index(one) < ask.index(two))
    assert orders == {True, False}


def test_what_was_said_before_is_remembered() -> None:
    remembered = [talk for talk in DRAWN if talk.family == "remembered"]
    assert len(remembered) > 300
    for talk in remembered:
        said, (ask, answer) = talk.turns[0][0], talk.turns[-1]
        told = r"(?:[Yy]our name is|[Yy]ou (?:live in|work as an?|have an?|like)) (\w+)"
        facts = re.findall(told, answer)
        assert len(facts) == ask.count("?") - ask.startswith("Do you remember?")
        assert all(fact in said for fact in facts)


def test_a_greeting_is_returned() -> None:
    for ask, answer in TURNS:
        if ask.startswith(("Good morning.", "Good evening.")):
            assert answer.startswith(ask[:13])
