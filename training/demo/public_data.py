"""Reading the public text files that the demo models may train on, as conversations.

What may live here: file names, licences, record formats and the cleaning of each file. It may not know tokens,
mixing shares or models, and it never reads evaluation data.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.protocol.errors import MisuseError

Turns = tuple[tuple[str, str], ...]

LONGEST_ANSWER = 900


@dataclass(frozen=True)
class PublicFile:
    """One public file: its name under the data folder, its origin, its licence and its reader."""

    file: str
    origin: str
    licence: str
    read: Callable[[str], list[Turns]]


def read_stories(text: str) -> list[Turns]:
    """Children's stories, asked for in general or by their first sentence."""
    stories = [" ".join(part.split()) for part in re.split(r"<\|endoftext\|>|\n\n\n+|\n(?=Once upon|One day, )", text)]
    conversations: list[Turns] = []
    for story in stories:
        if not 80 <= len(story) <= 2 * LONGEST_ANSWER:
            continue
        opening = re.split(r"(?<=[.!?])\s", story)[0]
        hero = re.search(r"named ([A-Z][a-z]+)", opening)
        ask = "Tell me a short story."
        if hero:
            ask = f"Tell me a short story about {hero.group(1)}."
        elif len(conversations) % 2:
            ask = f"Tell me a story that begins like this: {opening}"
        conversations.append(((ask, story),))
    return conversations


def read_personas(text: str) -> list[Turns]:
    """Two-person small talk, the first person as the user."""
    conversations: list[Turns] = []
    for record in csv.DictReader(text.splitlines(keepends=True)):
        lines = re.findall(r"User ([12]): (.*)", record["Best Generated Conversation"])
        pairs = [
            (first[1].strip(), second[1].strip())
            for first, second in zip(lines[::2], lines[1::2], strict=False)
            if first[0] == "1" and second[0] == "2"
        ]
        if pairs:
            conversations.append(tuple(pairs[:6]))
    return conversations


def read_instructions(text: str) -> list[Turns]:
    """Records of instruction, input and output, without the long ones."""
    return [
        ((f"{record['instruction']}\n{record['input']}".strip(), record["output"].strip()),)
        for record in json.loads(text)
        if 0 < len(record["output"]) <= LONGEST_ANSWER and len(record["input"]) <= LONGEST_ANSWER
    ]


SOURCES = (
    PublicFile(
        "train/tinystories_10k.txt",
        "TinyStories sample from mines-opt-ml/decoding-gpt",
        "CDLA-Sharing-1.0 upstream; the repository itself has no licence file",
        read_stories,
    ),
    PublicFile(
        "train/tinystories_smallGPT.txt",
        "TinyStories sample from s-ajaykumar/smallGPT",
        "CDLA-Sharing-1.0 upstream; the repository itself has no licence file",
        read_stories,
    ),
    PublicFile(
        "train/synthetic_persona_chat_valid.csv",
        "google-research-datasets/Synthetic-Persona-Chat, validation part",
        "CC BY 4.0",
        read_personas,
    ),
    PublicFile(
        "train/alpaca_en_demo_gpt4.json", "hiyouga/LLaMA-Factory, alpaca_en_demo", "Apache-2.0", read_instructions
    ),
    PublicFile(
        "train/rasbt_instruction_data.json",
        "rasbt/LLMs-from-scratch, instruction-data",
        "Apache-2.0",
        read_instructions,
    ),
)


class DataError(MisuseError):
    """The data folder lacks a file or holds one that cannot be read; the message says which."""


def load_public(folder: Path) -> dict[str, list[Turns]]:
    """Conversations by file name. Raises `DataError` that names every missing file."""
    missing = [source.file for source in SOURCES if not (folder / source.file).is_file()]
    if missing:
        raise DataError(f"the data folder {folder} lacks {', '.join(missing)}")
    loaded = {}
    for source in SOURCES:
        try:
            loaded[source.file] = source.read((folder / source.file).read_text(encoding="utf-8"))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{folder / source.file} is not in the expected format: {error}") from error
    return loaded
