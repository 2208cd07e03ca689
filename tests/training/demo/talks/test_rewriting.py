"""Rewritten texts, read back and compared with the text they came from."""

from __future__ import annotations

import json
import re
from itertools import islice

from training.demo.talks.categories import talks
from training.demo.talks.talk import Talk

DRAWN = list(islice(talks("rewriting", "back"), 4000))


def of(*endings: str) -> list[Talk]:
    found = [talk for talk in DRAWN if talk.family.endswith(endings)]
    assert len(found) >= 50
    return found


def rows_of(talk: Talk) -> list[dict[str, str]]:
    """The rows of a table, a JSON list or forms, as texts by column."""
    body = talk.result[0]
    if talk.family.endswith("JSON"):
        return [{key: str(value) for key, value in row.items()} for row in json.loads(body)]
    if talk.family.endswith("table"):
        head, rule, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]
        assert set(rule) == {"---"}
        return [dict(zip(head, line, strict=True)) for line in lines]
    return [dict(line.lower().split(": ") for line in part.splitlines()) for part in body.split("\n\n")]


def test_every_cell_is_copied_from_the_text() -> None:
    for talk in of("JSON", "table", "forms"):
        rows = rows_of(talk)
        assert rows
        for row in rows:
            assert all(re.search(rf"\b{re.escape(cell)}\b", talk.prompt, re.IGNORECASE) for cell in row.values())


def test_rows_are_sorted_and_chosen_as_asked() -> None:
    seen = set()
    for talk in of("JSON", "table", "forms"):
        rows = rows_of(talk)
        ranked = re.search(r"sorted by (\w+), (highest|lowest) first", talk.prompt)
        named = re.search(r"sorted by (name|item)\b", talk.prompt)
        chosen = re.search(r"only with (\w+) (\d+) or more", talk.prompt)
        if ranked:
            column, order = ranked.groups()
            values = [int(row[column]) for row in rows]
            assert values == sorted(values, reverse=order == "highest")
            seen.add(order)
        elif named:
            values_of = [row[named.group(1)] for row in rows]
            assert values_of == sorted(values_of)
            seen.add("name")
        elif chosen:
            assert all(int(row[chosen.group(1)]) >= int(chosen.group(2)) for row in rows)
            seen.add("chosen")
        else:
            seen.add("plain")
            places = [talk.prompt.lower().index(next(iter(row.values())).lower()) for row in rows]
            assert places == sorted(places)
    assert seen == {"highest", "lowest", "name", "chosen", "plain"}


def test_the_third_person_leaves_no_first_person_behind() -> None:
    for talk in of("first to third"):
        text = talk.turns[0][1]
        assert not re.search(r"\b(I|my|me)\b", text)
        assert re.search(r"\b(I|my)\b", talk.prompt)
        assert re.search(r"\b(he|she)\b", text)


def test_the_past_tense_changes_every_sentence_and_nothing_but_its_verb() -> None:
    for talk in of("third to past"):
        ask, answer = talk.turns[0]
        before = re.split(r"(?<=\.)\s+", ask.replace("\n", " "))
        for sentence in re.split(r"(?<=\.) ", answer):
            assert sentence not in before
            words = set(sentence.rstrip(".").split())
            assert any(len(words - set(old.rstrip(".").split())) == 1 for old in before)


def test_a_list_has_one_line_for_each_sentence() -> None:
    for talk in of("third to list"):
        lines = talk.turns[0][1].splitlines()
        assert [line.split(". ")[0] for line in lines] == [str(n + 1) for n in range(len(lines))]
        for line in lines:
            assert line[3:].rstrip(".").lower() in talk.prompt.lower()


def test_extracted_names_are_the_capitalised_words_of_the_text() -> None:
    for talk in of("names"):
        named = set(re.findall(r"- (\w+)", talk.turns[0][1]))
        first = re.search(r"On \w+ (.*?) went to (\w+)\.", talk.prompt)
        assert first
        assert named == {*re.findall(r"[A-Z]\w+", first.group(1)), first.group(2)}
