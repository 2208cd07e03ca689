"""Reading public text: formats, cleaning, and plain errors about missing or broken files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from training.demo.corpus import PUBLIC_WEIGHTS
from training.demo.public_data import SOURCES, DataError, load_public, read_instructions, read_personas, read_stories

STORY = "Once upon a time there was a cat named Tom. Tom liked the sun. " + "He slept all day in the garden. " * 3


def persona_file(conversation: str) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, ["user 1 personas", "user 2 personas", "Best Generated Conversation"])
    writer.writeheader()
    writer.writerow({"user 1 personas": "", "user 2 personas": "", "Best Generated Conversation": conversation})
    return out.getvalue()


def whole_folder(folder: Path) -> None:
    """Small but valid contents for every source."""
    contents = {
        read_stories: STORY + "\n<|endoftext|>\n" + STORY,
        read_personas: persona_file("User 1: Hi!\nUser 2: Hello!"),
        read_instructions: json.dumps([{"instruction": "Add.", "input": "1 2", "output": "3"}]),
    }
    (folder / "train").mkdir()
    for source in SOURCES:
        (folder / source.file).write_text(contents[source.read], encoding="utf-8")


def test_stories_are_split_and_asked_for() -> None:
    first, second = read_stories(STORY + "\n<|endoftext|>\n" + STORY + "\n<|endoftext|>\nToo short.")
    assert first == second
    assert first[0][0] == "Tell me a short story about Tom."
    assert first[0][1].startswith("Once upon a time")


def test_personas_become_turns_until_the_speakers_fall_out_of_step() -> None:
    text = persona_file("User 1: Hi!\nUser 2: Hello!\nUser 1: How are you?\nUser 2: Fine.\nUser 1: Bye.")
    assert read_personas(text) == [(("Hi!", "Hello!"), ("How are you?", "Fine."))]


def test_long_instructions_are_dropped() -> None:
    records = [
        {"instruction": "Say yes.", "input": "", "output": "Yes."},
        {"instruction": "Write a book.", "input": "", "output": "word " * 500},
    ]
    assert read_instructions(json.dumps(records)) == [(("Say yes.", "Yes."),)]


def test_every_source_is_loaded_weighted_and_licensed(tmp_path: Path) -> None:
    whole_folder(tmp_path)
    loaded = load_public(tmp_path)
    weighted = {name for files in PUBLIC_WEIGHTS.values() for name in files}
    assert set(loaded) == {source.file for source in SOURCES} == weighted
    assert all(loaded.values())
    assert all(source.licence for source in SOURCES)
    assert not any("eval" in source.file or "sgd" in source.file for source in SOURCES)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    whole_folder(tmp_path)
    broken = next(source for source in SOURCES if source.read is read_instructions)
    (tmp_path / broken.file).write_text("not json", encoding="utf-8")
    with pytest.raises(DataError, match=broken.file):
        load_public(tmp_path)
