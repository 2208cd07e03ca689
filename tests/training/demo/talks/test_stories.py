"""Stories keep to what the prompt asks for."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice

from training.demo.talks.categories import talks
from training.demo.talks.stories import HELPERS, MORALS, OBSTACLES, WISHES


@cache
def drawn() -> list[tuple[str, str]]:
    return [talk.turns[0] for talk in islice(talks("stories", "kept"), 2000)]


def test_the_hero_is_named_throughout() -> None:
    for ask, story in drawn():
        named = re.findall(r"(?:about|named|called|in which|is|hero|time!|please\.) ([A-Z]\w+)\b", ask)
        assert len(named) == 1
        assert len(re.findall(rf"\b{named[0]}\b", story)) >= 3


def test_wish_helper_and_obstacle_of_the_prompt_occur() -> None:
    counted = {"wish": 0, "helper": 0, "obstacle": 0}
    for ask, story in drawn():
        for wish in WISHES:
            if wish.want in ask:
                assert wish.want in story
                assert wish.have in story
                counted["wish"] += 1
        for helper in HELPERS:
            if helper in ask:
                assert helper.split(" ", 1)[1] in story
                counted["helper"] += 1
        for obstacle in OBSTACLES:
            if re.search(rf"{obstacle.what}\b", ask):
                assert obstacle.overcome in story
                counted["obstacle"] += 1
    assert min(counted.values()) > 100


def test_extras_are_followed() -> None:
    for ask, story in drawn():
        assert ("The moral: " in story) == ask.endswith("End with a moral.")
        assert story.startswith("**") == ask.endswith("Give it a title.")
    assert any(moral in story for moral in MORALS.values() for _, story in drawn())
    short = [len(story) for ask, story in drawn() if ask.endswith("Keep it short.")]
    whole = [len(story) for ask, story in drawn() if not ask.endswith("Keep it short.")]
    assert max(short) < sum(whole) / len(whole)


def test_stories_have_six_to_eighteen_sentences() -> None:
    for _, story in drawn():
        assert 6 <= len(re.findall(r"[.!?]+[\"]?(?:\s|$)", story)) <= 18


def test_stories_differ() -> None:
    assert len({story for _, story in drawn()}) > 0.95 * len(drawn())
