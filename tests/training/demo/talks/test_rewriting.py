"""Rewritten texts, read back and compared with the text they came from."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import islice

from training.demo.check import ends_in_text
from training.demo.talks import rewriting
from training.demo.talks.categories import held_out_talks, talks
from training.demo.talks.retelling import DEEDS
from training.demo.talks.talk import Talk


@cache
def drawn() -> list[Talk]:
    return list(islice(talks("rewriting", "back"), 5000))


@cache
def held() -> list[Talk]:
    return held_out_talks("rewriting, held-out families", 300, "back")


def of(*beginnings: str) -> list[Talk]:
    found = [talk for talk in (*drawn(), *held()) if talk.family.removeprefix("held-out: ").startswith(beginnings)]
    assert len(found) >= 40
    return found


def rows_of(talk: Talk) -> list[list[str]]:
    """The cells of the wanted text, row by row, whatever its form."""
    body = talk.result[0]
    if body.startswith("["):
        return [[str(value) for value in row.values()] for row in json.loads(body)]
    if body.startswith("|"):
        _, rule, *lines = body.splitlines()
        assert set(rule) <= {"|", "-"}
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if re.match(r"- |1\. ", body):
        return [re.sub(r"^(- |\d+\. )", "", line).split(", ") for line in body.splitlines()]
    if body[0].isupper():
        return [[line.split(": ")[1] for line in part.splitlines()] for part in body.split("\n---\n")]
    return [line.split(",") for line in body.splitlines()[1:]]


def test_every_cell_is_copied_from_the_text() -> None:
    for talk in of("records"):
        assert rows_of(talk)
        for row in rows_of(talk):
            assert all(re.search(rf"\b{re.escape(cell)}\b", talk.prompt) for cell in row), talk


def test_rows_are_sorted_filtered_and_shortened_as_asked() -> None:
    seen = set()
    columns = {"age": 1, "years": 2, "price": 2, "hour": 2, "points": 2}
    for talk in of("records"):
        rows = rows_of(talk)
        told = re.sub(r"(above|below) \d+", "", talk.prompt)
        ranked = re.search(r"sorted by (\w+), (highest|lowest) first", talk.prompt)
        chosen = re.search(r"only with (\w+) (above|below) (\d+)", talk.prompt)
        without = re.search(r"without the (\w+)", talk.prompt)
        assert len({len(row) for row in rows}) == 1
        assert len(rows[0]) == (2 if without else 3)
        label_places = [told.index(row[0]) for row in rows]
        if ranked:
            order = re.search(r"Order by \w+: ([\d, ]+)\.", talk.turns[0][1]).group(1).split(", ")  # type: ignore[union-attr]
            assert order == sorted(order, key=int, reverse=ranked.group(2) == "highest")
            if not without:
                assert [row[columns[ranked.group(1)]] for row in rows] == order
            seen.add("ranked")
        else:
            assert label_places == sorted(label_places)
        if chosen:
            _, side, bound = chosen.groups()
            lines = re.findall(
                r"^(\w+): (\d+) is (not )?(more|less) than (\d+), (keep|leave out)\.", talk.turns[0][1], re.M
            )
            kept = []
            for label, number, no, word, against, verdict in lines:
                assert against == bound
                assert word == ("more" if side == "above" else "less")
                fits = int(number) > int(bound) if side == "above" else int(number) < int(bound)
                assert fits == (not no) == (verdict == "keep")
                kept += [label] if fits else []
            assert sorted(kept) == sorted(row[0] for row in rows)
            seen.add("chosen")
        if without:
            seen.add("without")
    assert seen == {"ranked", "chosen", "without"}


PLAIN = {plain: plain for plain, _, _, _ in DEEDS} | {third: plain for plain, third, _, _ in DEEDS}
PASTS = {past.split()[0]: plain for plain, _, past, _ in DEEDS}


def voice_of(text: str) -> tuple[str, str]:
    """Who tells, and when, by the first clause alone."""
    words = text.rstrip(".").split()
    who = "first" if words[0] == "I" else "third"
    verb = words[1]
    if verb == "will":
        return who, "future"
    if verb in PASTS and not (verb in PLAIN and who == "first" and verb == "read"):
        return who, "past"
    return who, "present"


def test_person_and_tense_change_as_asked_and_nothing_else_does() -> None:
    seen = set()
    for talk in of("person"):
        ask, answer = talk.turns[0]
        first_word = answer.split()[0]
        wish = re.search(r"(?:Rewrite|Put|Tell|Please write)[^.]*\.", ask).group()  # type: ignore[union-attr]
        voices = {voice_of(answer)}
        if "first person" in wish:
            assert first_word == "I"
            assert not re.search(r"\b(he|she|his|her)\b", answer)
        if "third person" in wish:
            name, pronoun = re.search(r"about (\w+) \((\w+)\)", wish).groups()  # type: ignore[union-attr]
            assert first_word == name
            assert not re.search(r"\b(I|my)\b", answer)
            assert not re.search({"he": r"\b(she|her)\b", "she": r"\b(he|his)\b"}[pronoun], answer)
        for words, when in (("past tense", "past"), ("present tense", "present"), ("in the future", "future")):
            if words in wish and not re.match(r"\w+ read ", answer):
                assert voices == {(voice_of(answer)[0], when)}
                seen.add(when)
        rest = {word for word in re.findall(r"\w+", answer) if word[0].isupper()} - {first_word, "I", "He", "She"}
        assert all(re.search(rf"\b{word}\b", ask) for word in rest)
    assert seen == {"past", "present", "future"}


def test_steps_are_the_sentences_without_who_does_them() -> None:
    for talk in of("steps"):
        lines = talk.result[0].splitlines()
        assert [line.split(". ")[0] for line in lines] == [str(n + 1) for n in range(len(lines))]
        for line in lines:
            assert line.split(". ", 1)[1][1:] in talk.prompt


def test_edits_are_done_again() -> None:
    for talk in of("reverse"):
        words = max(re.split(r"\n+|\. (?=\S)", talk.prompt), key=lambda part: part.count(",")).split(", ")
        assert re.findall(r"[\w]+", talk.result[0]) == re.findall(r"\w+", ", ".join(reversed(words)))
    for talk in of("sort numbers"):
        numbers = list(map(int, re.findall(r"\d+", talk.prompt)))
        assert list(map(int, talk.result[0].split(", "))) == sorted(numbers, reverse="highest" in talk.prompt)
    for talk in of("filter numbers"):
        bound = int(re.search(r"above (\d+)", talk.prompt).group(1))  # type: ignore[union-attr]
        numbers = list(map(int, re.findall(r"\d+", talk.prompt.replace(f"above {bound}.", ""))))
        assert list(map(int, talk.result[0].split(", "))) == [number for number in numbers if number > bound]
    for talk in of("copy"):
        assert talk.result[0] in talk.prompt


def test_trips_name_only_what_the_text_names() -> None:
    for talk in of("trip"):
        body = re.sub(
            r"(People|Places|Who|Where|When|Transport|Food|Bought|Cost):|\*\*A|\b(On|They)\b", "", talk.result[0]
        )
        assert all(re.search(rf"\b{word}\b", talk.prompt) for word in re.findall(r"[A-Z]\w+|\d+", body))


def test_a_right_ending_needs_all_of_the_wanted_text_and_no_more() -> None:
    for talk in drawn():
        answer = talk.turns[0][1]
        lines = talk.result[0].splitlines()
        assert ends_in_text(answer, talk.result)
        assert not ends_in_text(f"{answer}\n{lines[0]}", talk.result)
        assert not ends_in_text(f"{answer[:-1]}", talk.result)
        if len(lines) > 1 and "\n\n" not in talk.result[0]:
            assert not ends_in_text(talk.result[0], (lines[-1],))


def test_held_out_families_are_apart_and_never_trained_on() -> None:
    assert not set(rewriting.HELD_OUT) & {*rewriting.TASKS, *rewriting.EXERCISES}
    assert {talk.family for talk in drawn()} == {*rewriting.TASKS, *rewriting.EXERCISES}
    assert {talk.family for talk in held()} == set(rewriting.HELD_OUT)
    for talk in drawn():
        assert not re.search(r"sorted by .*without the|from back to front as a bullet list", talk.prompt)
        if talk.family == "person and tense":
            wish = re.search(r"(?:Rewrite|Put|Tell|Please write)[^.]*\.", talk.prompt).group()  # type: ignore[union-attr]
            if "past tense" in wish and "third person" in wish:
                assert " will " in talk.prompt
