"""Reading answers, found again in the passage by other means than the generator's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from training.demo.talks.categories import talks
from training.demo.talks.lexicon import PEOPLE
from training.demo.talks.talk import Talk

DRAWN = list(islice(talks("reading", "found"), 4000))


def ages_in(text: str) -> dict[str, int]:
    """Each age belongs to the name that was told last."""
    found: dict[str, int] = {}
    name = ""
    for word, age in re.findall(rf"\b({'|'.join(person.name for person in PEOPLE)})\b|(\d+) years old", text):
        if age:
            found[name] = int(age)
        else:
            name = word
    return found


def asking(question: str) -> Iterator[tuple[re.Match[str], str, Talk]]:
    """The talks that ask this, with the match and the answer; at least 20 of them."""
    found = [(re.search(question, talk.prompt), talk.turns[0][1], talk) for talk in DRAWN]
    matched = [(match, answer, talk) for match, answer, talk in found if match]
    assert len(matched) >= 20
    return iter(matched)


def test_who_is_older() -> None:
    for match, answer, talk in asking(r"Who is older, (\w+) or (\w+)\?"):
        ages = ages_in(talk.prompt)
        older = max(match.groups(), key=lambda name: ages[name])
        assert answer.startswith(f"{older} is older.")


def test_how_much_older() -> None:
    for match, answer, talk in asking(r"How much older is (\w+) than (\w+)\?"):
        ages = ages_in(talk.prompt)
        gap = ages[match.group(1)] - ages[match.group(2)]
        assert gap > 0
        assert f"{match.group(1)} is {gap} years older" in answer


def test_the_cheapest_event() -> None:
    for _, answer, talk in asking(r"Which event is the cheapest\?"):
        prices = {}
        for sentence in re.split(r"(?<=\.) ", talk.prompt):
            name = re.search(r"(?:[Tt]here is an? |for the |The )(\w+)", sentence)
            price = re.search(r"(\d+) dollars", sentence)
            if name and price:
                prices[name.group(1)] = int(price.group(1))
        assert len(prices) == 3
        cheapest = min(prices, key=lambda event: prices[event])
        assert answer.startswith(f"The {cheapest} is the cheapest event. It costs {prices[cheapest]} dollars")


def test_the_first_shop() -> None:
    for _, answer, talk in asking(r"Which shop opens first\?"):
        names = re.findall(r"(?:[Tt]he|runs the) ([a-z ]+?)(?: belongs| with)", talk.prompt)
        hours = [int(hour) for hour in re.findall(r"opens at (\d+)", talk.prompt)]
        first = min(zip(hours, names, strict=True))
        assert answer.startswith(f"The {first[1]} opens first, at {first[0]}.")


def test_facts_that_are_missing_are_said_to_be_missing() -> None:
    missing = [talk for talk in DRAWN if "so I cannot know" in talk.turns[0][1]]
    assert len(missing) >= 50
    for talk in missing:
        age, place = "How old is" in talk.prompt, "Where does" in talk.prompt
        assert not (age and "years old" in talk.prompt)
        assert not (place and "lives in" in talk.prompt)


def test_yes_and_no_both_occur_and_fit_the_ages() -> None:
    seen = set()
    for match, answer, talk in asking(r"Is (\w+) older than (\w+)\?"):
        ages = ages_in(talk.prompt)
        expected = "Yes" if ages[match.group(1)] > ages[match.group(2)] else "No"
        assert answer.startswith(f"{expected}.")
        seen.add(expected)
    assert seen == {"Yes", "No"}


def test_quotations_stand_in_the_passage() -> None:
    quoted = 0
    for talk in DRAWN:
        for line in re.findall(r"^(?:> |- )(.*)$", talk.turns[0][1], re.MULTILINE):
            assert line in talk.prompt
            quoted += 1
    assert quoted > 500
