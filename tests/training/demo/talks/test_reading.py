"""Reading answers, found again in the passage by other means than the generator's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice

from training.demo.check import concludes
from training.demo.talks import reading
from training.demo.talks.categories import held_out_talks, talks
from training.demo.talks.scenes import EVENTS, SHOPS
from training.demo.talks.talk import Talk

LABELS = rf"[Tt]he (\w+ box|train to \w+|{'|'.join(sorted((*EVENTS, *SHOPS), key=len, reverse=True))})\b"
NO_NAMES = {"He", "She", "His", "Her", "In", "It", "Its", "At", "On", "The", "A", "You", "There", "Platform"}
UNITS = {
    "years": r"(\d+) years old|age is (\d+)|just turned (\d+)|born (\d+) years",
    "dollars": r"(\d+) dollars",
    "pounds": r"(\d+) pounds",
    "o'clock": r"(\d+) o'clock",
    "platform": r"[Pp]latform (\d+)",
}
NUMBER_ASKED = {
    r"^(?:How old is|What is the age of|How many years old is) (.*)\?$": "years",
    r"^(?:How much does|How many dollars does) (.*) cost\?$|^What is the price of (.*)\?$": "dollars",
    r"^(?:How much does|How many pounds does) (.*) weigh\?$|^What is the weight of (.*)\?$": "pounds",
    r"^(?:When does|At what time does|At which hour does) (.*) (?:start|begin|open|leave|depart)\?$": "o'clock",
    r"^(?:On which platform does) (.*) wait\?$|^What is the platform of (.*)\?$": "platform",
}


@cache
def drawn() -> list[Talk]:
    return list(islice(talks("reading", "found"), 6000))


def sentences(talk: Talk) -> list[str]:
    parts = re.split(r"(?<=[.?])\s+|\n+|(?:Text|Question): ", talk.prompt)
    return [part for part in parts if part and not part.endswith("?")]


def bare(subject: str) -> str:
    return re.sub(r"^[Tt]he ", "", subject)


def numbers_told(talk: Talk) -> dict[tuple[str, str], int]:
    """Each number belongs to what its sentence names, or else to what was named last."""
    found: dict[tuple[str, str], int] = {}
    subject = ""
    things = re.search(LABELS, talk.prompt)
    for sentence in sentences(talk):
        label = re.search(LABELS, sentence)
        home = re.search(r"is where (\w+) lives", sentence)
        names = [name for name in re.findall(r"\b[A-Z]\w+", sentence) if name not in NO_NAMES]
        if label:
            subject = label.group(1)
        elif home and home.group(1)[0].isupper():
            subject = home.group(1)
        elif (
            names
            and not home
            and not things
            and re.search(UNITS["years"] + r"|^[A-Z]\w+'s |^[A-Z]\w+ |evenings", sentence)
        ):
            subject = names[0] if not re.match(r"(He|She|His|Her|It|Its) ", sentence) else subject
        for unit, pattern in UNITS.items():
            for groups in re.findall(f"(?:{pattern})", sentence):
                number = groups if isinstance(groups, str) else next(filter(None, groups))
                found[subject, unit] = int(number)
    return found


def asked(talk: Talk) -> str:
    """The one sentence of the prompt that asks."""
    return re.sub(r"^.*(?:Question|only the text): |^.*(?:text|question)\. ", "", question_line(talk))


def question_line(talk: Talk) -> str:
    return next(part for part in re.split(r"(?<=[.?])\s+|\n+|Question: ", talk.prompt) if part.endswith("?"))


def of(*families: str) -> Iterator[Talk]:
    found = [talk for talk in drawn() if talk.family in families]
    assert len(found) >= 40
    return iter(found)


def test_numbers_are_looked_up_and_refused_as_the_passage_has_them() -> None:
    seen = Counter()
    for talk in of("look-up", "missing fact"):
        question = asked(talk)
        for pattern, unit in NUMBER_ASKED.items():
            match = re.search(pattern, question)
            if match:
                subject = bare(next(filter(None, match.groups())))
                told = numbers_told(talk).get((subject, unit))
                assert talk.result == ((str(told),) if told is not None else ("does not say",)), talk
                seen[told is None] += 1
    assert min(seen[True], seen[False]) > 30


def test_comparisons_agree_with_the_numbers_of_the_passage() -> None:
    compared = 0
    for talk in of("compare"):
        one, other = (bare(part) for part in re.search(r", (.+) or (.+)\?", asked(talk)).groups())  # type: ignore[union-attr]
        told = numbers_told(talk)
        units = {unit for name, unit in told if name == one} & {unit for name, unit in told if name == other}
        more = {one if told[one, unit] > told[other, unit] else other for unit in units}
        assert bare(talk.result[0]) in more
        compared += 1
    assert compared > 100


def test_most_and_least_agree_with_the_numbers_of_the_passage() -> None:
    words = {"oldest": "years", "youngest": "years", "expensive": "dollars", "cheapest": "dollars"}
    words |= {"heaviest": "pounds", "lightest": "pounds", "last": "o'clock", "first": "o'clock"}
    for talk in of("most or least"):
        word = re.findall(r"\w+", asked(talk))[-1]
        told = {name: number for (name, unit), number in numbers_told(talk).items() if unit == words[word]}
        best = (min if word in ("youngest", "cheapest", "lightest", "first") else max)(told, key=lambda n: told[n])
        assert bare(talk.result[0]) == best


def test_gaps_are_differences_of_two_numbers_of_the_passage() -> None:
    for talk in of("gap"):
        high, low, gap = map(int, re.search(r"(\d+) - (\d+) = (\d+)", talk.turns[0][1]).groups())  # type: ignore[union-attr]
        assert high - low == gap > 0
        assert {high, low} <= set(numbers_told(talk).values())
        assert talk.result == (str(gap),)


def test_the_way_is_walked_again() -> None:
    for talk in of("way"):
        stops = re.findall(r"(?:went|walked|drove) to the ([a-z ]+?)\.", talk.prompt)
        question, result = asked(talk), talk.result[0]
        place = re.search(r"(?:after|before) the ([a-z ]+)\?", question)
        if "How many" in question:
            assert result == str(len(stops))
        elif place and place.group(1) not in stops:
            assert result == "does not say"
        elif place:
            step = 1 if "after" in question else -1
            assert result == stops[stops.index(place.group(1)) + step]
        else:
            word = re.search(r"first|second|third|fourth|fifth|last", question).group()  # type: ignore[union-attr]
            index = ("first", "second", "third", "fourth", "fifth", "last").index(word)
            assert result == stops[-1 if word == "last" else index]


def test_the_race_is_run_again() -> None:
    for talk in of("race"):
        before = set(re.findall(r"(\w+) came in just before (\w+)", talk.prompt))
        before |= {(a, b) for b, a in re.findall(r"(\w+) came in just after (\w+)", talk.prompt)}
        before |= set(re.findall(r"Right behind (\w+) came (\w+)", talk.prompt))
        follows = dict(before)
        order = [next(iter(set(follows) - set(follows.values())))]
        while order[-1] in follows:
            order.append(follows[order[-1]])
        question = asked(talk)
        pair = re.search(r"Did (\w+) come in before (\w+)\?", question)
        if pair:
            assert talk.result == ("yes" if order.index(pair.group(1)) < order.index(pair.group(2)) else "no",)
        else:
            word = re.search(r"won|last|second", question).group()  # type: ignore[union-attr]
            assert talk.result == (order[{"won": 0, "last": -1, "second": 1}[word]],)


def test_the_rooms_are_walked_again() -> None:
    for talk in of("moves"):
        room_of: dict[str, str] = {}
        for name, room in re.findall(r"(\w+) (?:went to|walked into) the (\w+)", talk.prompt):
            room_of[name] = room
        carrier, thing = re.search(r"(\w+) (?:took|picked up) the (\w+)", talk.prompt).groups()  # type: ignore[union-attr]
        room_of[thing] = room_of[carrier]
        subject = re.search(r"is (?:the )?(\w+)(?: now| at the end)?\?", asked(talk)).group(1)  # type: ignore[union-attr]
        assert talk.result == (room_of.get(subject, "does not say"),)


def test_pairs_are_looked_up_again() -> None:
    for talk in of("pairs"):
        text = re.sub(r"^.*\?$|^Question: .*$|^Look up .*$", "", talk.prompt, flags=re.MULTILINE)
        told = dict(re.findall(r"(\w+)(?:: | = | is | -> )(\w+)", text))
        backwards = {value: key for key, value in told.items()}
        sought = re.search(r"(?:What is|belongs to|Look up|said of|before|has the value) (\w+)[.?]", talk.prompt).group(
            1
        )  # type: ignore[union-attr]
        expected = backwards.get(sought) or told.get(sought) or "does not say"
        assert talk.result[0] == expected


def test_several_pairs_are_looked_up_again() -> None:
    for talk in of("several pairs"):
        text = re.sub(r"^.*\?$|^Question: .*$|^Look up .*$", "", talk.prompt, flags=re.MULTILINE)
        told = dict(re.findall(r"(\w+)(?:: | = | is | -> )(\w+)", text))
        sought = re.search(r"(?:What are|belong to|Look up|have the values) ([\w ,]+)[.?]", talk.prompt)
        words = re.split(r", | and ", sought.group(1))  # type: ignore[union-attr]
        if sought.group().startswith("have"):  # type: ignore[union-attr]
            found, said = {value: key for key, value in told.items()}, "The key of {} is {}."
        else:
            found, said = told, "{} is {}."
        assert talk.turns[0][1] == " ".join(said.format(word, found[word]) for word in words)
        assert talk.result[0] == found[words[-1]]


def test_several_neighbours_are_found_again() -> None:
    for talk in of("several neighbours"):
        listed = max((line for line in talk.prompt.splitlines() if "Which" not in line), key=len)
        options = listed.rpartition(": ")[2].split(", ")
        step, sought = re.search(r"come (after|before) ([\w ,]+)\?", talk.prompt).groups()  # type: ignore[union-attr]
        words = re.split(r", | and ", sought)
        found = [options[options.index(word) + (1 if step == "after" else -1)] for word in words]
        said = [f"{step.capitalize()} {word} comes {other}." for word, other in zip(words, found, strict=True)]
        assert talk.turns[0][1] == " ".join(said)
        assert found[-1] in talk.result


def test_descriptions_name_every_number_of_each_subject_in_the_order_asked() -> None:
    """Told in the passage in other words; numbers alone are compared, as their sentences name their subjects."""
    compared = 0
    for talk in of("description"):
        about = re.search(r"(?:say of|all about|know of) ([^.?]+)[.?]", talk.prompt).group(1)  # type: ignore[union-attr]
        subjects = [bare(part) for part in re.split(r", | and ", about)]
        told = numbers_told(talk)
        expected = [sorted(number for (name, _), number in told.items() if name == subject) for subject in subjects]
        said: dict[str, list[int]] = {subject: [] for subject in subjects}
        for sentence in talk.turns[0][1].removesuffix(".").split(". "):
            owner = next(subject for subject in subjects if re.search(rf"\b{subject}\b", sentence))
            said[owner] += map(int, re.findall(r"\d+", sentence))
        assert [sorted(numbers) for numbers in said.values()] == expected
        compared += sum(map(len, expected))
    assert compared > 200


def test_chains_are_followed_again() -> None:
    for talk in of("chain"):
        links = dict(re.findall(r"(\w+) -> (\w+)", talk.prompt))
        here = re.search(r"start at (\w+)", talk.prompt).group(1)  # type: ignore[union-attr]
        while here in links:
            here = links[here]
        assert talk.result == (here,)


def test_what_is_right_occurs_in_the_passage_or_is_said_by_number_or_judgement() -> None:
    for talk in drawn():
        for part in talk.result:
            own = part in ("yes", "no", "does not say") or part.isdigit()
            assert own or part.lower() in talk.prompt.lower()


def test_competing_values_are_never_right_and_the_check_rejects_them() -> None:
    """Neither another value, nor all values at once, nor a refusal, nor a denial counts as right."""
    tried = 0
    for talk in drawn():
        answer = talk.turns[0][1]
        assert not set(talk.wrong) & set(talk.result)
        refusal = "The text does not say that."
        assert concludes(refusal, talk.result, talk.wrong) == (talk.result == ("does not say",))
        for value in talk.wrong:
            assert not concludes(f"{answer[:-1]} and {value}.", talk.result, talk.wrong)
            if len(talk.result) == 1 and talk.result[0] in answer:
                swapped = answer.replace(talk.result[0], value)
                assert not concludes(swapped, talk.result, talk.wrong)
                tried += 1
        if talk.result != ("does not say",):
            assert not concludes(f"{answer[:-1]} and not.", talk.result, talk.wrong)
    assert tried > 3000


def test_yes_and_no_are_balanced_and_refusals_have_a_fair_share() -> None:
    results = Counter(talk.result[0] for talk in drawn())
    assert 0.6 < results["yes"] / results["no"] < 1.6
    assert 0.08 < results["does not say"] / len(drawn()) < 0.25


def test_held_out_families_are_apart_and_never_trained_on() -> None:
    assert not set(reading.HELD_OUT) & {*reading.TASKS, *reading.EXERCISES}
    assert {talk.family for talk in drawn()} == {*reading.TASKS, *reading.EXERCISES}
    held = held_out_talks("reading, held-out families", 300, "h")
    assert {talk.family for talk in held} == set(reading.HELD_OUT)
    asks = [ask for talk in drawn() for ask, _ in talk.turns]
    assert not any(re.search(r"stands between|Which shop opens (?:first|last)|than (?:the \w+) does the \w+ start", ask)
                   for ask in asks)  # fmt: skip
    assert not any(re.search(r"Which box (?:holds|is in|stands|weighs \d)", ask) for ask in asks)
