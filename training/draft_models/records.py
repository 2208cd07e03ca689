"""Reads data files as conversations and plain texts, each with its file and line.

What may live here: the formats of JSON, JSONL and text files, and error messages that name the file and the line. It
may not know tokenizers or models.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.protocol.errors import MisuseError
from common.protocol.plain import plain

USER, ASSISTANT = "user", "assistant"
ROLES = {
    "system": "system",
    "user": USER,
    "human": USER,
    "assistant": ASSISTANT,
    "gpt": ASSISTANT,
    "model": ASSISTANT,
    "tool": "tool",
}
"""Names of roles in files (`human` and `gpt` are ShareGPT's), and those in chat templates."""

FORMATS = "'messages', 'conversations', 'instruction' with 'output' or 'response', or 'text'"
PROMPT_FORMATS = f"'prompt', 'turns', {FORMATS}"


@dataclass(frozen=True)
class Turn:
    """One message. role: one of the values of `ROLES`."""

    role: str
    content: str


@dataclass(frozen=True)
class ConversationRecord:
    """At least one turn. where: file and line, for people."""

    turns: tuple[Turn, ...]
    where: str

    @property
    def answered(self) -> bool:
        return any(turn.role == ASSISTANT for turn in self.turns)

    @property
    def texts(self) -> list[str]:
        return [turn.content for turn in self.turns]

    @property
    def digest(self) -> str:
        return digest([[turn.role, turn.content] for turn in self.turns])


@dataclass(frozen=True)
class TextRecord:
    """A paragraph or a longer text without turns. where: file and line, for people."""

    content: str
    where: str

    @property
    def texts(self) -> list[str]:
        return [self.content]


Record = ConversationRecord | TextRecord


def digest(content: Any) -> str:
    """A hash of a record's content, independent of its position."""
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def read_records(files: Sequence[Path], answers_needed: bool = True) -> list[Record]:
    """All records of the files, in order.

    Raises `MisuseError` for a file that cannot be read or holds nothing, and for a record that is malformed or, where
    `answers_needed`, has no place for an answer.
    """
    records: list[Record] = []
    for path in files:
        found = list(read_file(path, answers_needed))
        if not found:
            raise MisuseError(f"{path} is empty: pass a file with records or text in it")
        records += found
    return records


def read_file(path: Path, answers_needed: bool) -> Iterator[Record]:
    try:
        # Some editors begin a file with a byte order mark.
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise MisuseError(f"{path} is not UTF-8 text: pass JSON, JSONL or plain text") from error
    except OSError as error:
        raise MisuseError(f"{path} cannot be read: {error.strerror}") from error
    if path.suffix == ".txt":
        yield from paragraphs(path, content)
    elif path.suffix in (".json", ".jsonl"):
        in_lines = path.suffix == ".jsonl" or not content.lstrip().startswith("[")
        for line, value in json_lines(path, content) if in_lines else json_list(path, content):
            record = parse(value, f"{path}, line {line}", answers_needed)
            check_characters(record)
            yield record
    else:
        raise MisuseError(f"{path} is of an unknown kind: name it .jsonl, .json or .txt")


def paragraphs(path: Path, content: str) -> Iterator[TextRecord]:
    """The paragraphs, separated by blank lines; line breaks inside a paragraph stay."""
    start, kept = 1, list[str]()
    # `str.splitlines` also ends lines where editors do not, as at a form feed.
    for number, line in enumerate([*content.split("\n"), ""], 1):
        if line.strip():
            start = start if kept else number
            kept.append(line)
        elif kept:
            yield TextRecord("\n".join(kept), f"{path}, line {start}")
            kept = []


def json_lines(path: Path, content: str) -> Iterator[tuple[int, Any]]:
    """The value of each line that is not blank, with its number from 1."""
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise MisuseError(f"{path}, line {number}: this is no JSON; every line must hold one record") from error


def json_list(path: Path, content: str) -> Iterator[tuple[int, Any]]:
    """The items of one JSON list, each with the number of the line it starts in."""
    decoder = json.JSONDecoder()
    at, line, counted = skip(content, content.index("[") + 1), 1, 0
    while at < len(content) and content[at] != "]":
        line, counted = line + content.count("\n", counted, at), at
        try:
            value, at = decoder.raw_decode(content, at)
        except json.JSONDecodeError as error:
            raise MisuseError(f"{path}, line {error.lineno}: this is no JSON ({error.msg.lower()})") from error
        # Numbers of thousands of digits, and lists within thousands of lists.
        except (ValueError, RecursionError) as error:
            raise MisuseError(f"{path}, line {line}: this is no JSON that can be read") from error
        yield line, value
        at = skip(content, at)
        if content[at : at + 1] == ",":
            at = skip(content, at + 1)
        elif content[at : at + 1] != "]":
            raise MisuseError(f"{path}, line {line}: after this record a comma or the end of the list is missing")
    if at >= len(content):
        raise MisuseError(f"{path}, line {content.count(chr(10)) + 1}: the list of records has no end")


def skip(content: str, at: int) -> int:
    """The position of the next character that is no white space."""
    while at < len(content) and content[at].isspace():
        at += 1
    return at


def parse(value: Any, where: str, answers_needed: bool) -> Record:
    """The record in a JSON value. Raises `MisuseError` with `where` for anything else.

    A conversation comes before a `text`, which in public data sets is the same conversation as a template writes it.
    """
    if not isinstance(value, Mapping):
        raise MisuseError(f"{where}: a record must be a JSON object")
    # Tables in which records of several formats were put together have null for what a record lacks.
    value = {name: item for name, item in value.items() if item is not None}
    if "messages" in value:
        turns = parse_turns(value["messages"], "messages", ("role", "content"), where)
    elif "conversations" in value:
        turns = parse_turns(value["conversations"], "conversations", ("from", "value"), where)
    elif "instruction" in value:
        turns = parse_instruction(value, where, answers_needed)
    elif not answers_needed and ("prompt" in value or "turns" in value):
        turns = [Turn(USER, parse_prompt(value, where))]
    elif isinstance(value.get("text"), str):
        return text(value["text"], where)
    else:
        raise MisuseError(f"{where}: the record has none of {FORMATS if answers_needed else PROMPT_FORMATS}")
    conversation = ConversationRecord(tuple(turns), where)
    if answers_needed and not conversation.answered:
        raise MisuseError(f"{where}: the conversation has no answer to learn; add a turn of the role 'assistant'")
    return conversation


def check_characters(record: Record) -> None:
    """Raises `MisuseError` for half of a surrogate pair, which JSON can write and no tokenizer takes."""
    for content in record.texts:
        try:
            content.encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(content[error.start]):04x}"
            raise MisuseError(
                f"{record.where}: the text has {half}, which is half of a character; correct it, or leave it out"
            ) from error


def text(content: str, where: str) -> TextRecord:
    if not content.strip():
        raise MisuseError(f"{where}: the text is empty")
    return TextRecord(content, where)


def parse_turns(value: Any, name: str, keys: tuple[str, str], where: str) -> list[Turn]:
    """Turns under the given keys, or under `role` and `content`, which some files use in `conversations` too."""
    if not isinstance(value, list) or not value:
        raise MisuseError(f"{where}: '{name}' must be a list of at least one turn")
    turns = []
    for number, item in enumerate(value, 1):
        known = item if isinstance(item, Mapping) else {}
        who, what = keys if keys[0] in known else ("role", "content")
        role, content = known.get(who), known.get(what)
        if not isinstance(role, str) or not isinstance(content, str):
            raise MisuseError(f"{where}: turn {number} of '{name}' needs the strings '{keys[0]}' and '{keys[1]}'")
        if role not in ROLES:
            raise MisuseError(
                f"{where}: turn {number} has the unknown role '{plain(role)}'; use one of: {', '.join(ROLES)}"
            )
        turns.append(Turn(ROLES[role], content))
    return turns


def parse_instruction(value: Mapping[str, Any], where: str, answer_needed: bool) -> list[Turn]:
    """An instruction, with its input as a second paragraph, and the answer where there is one."""
    parts = [string(value, name, where) for name in ("instruction", "input") if value.get(name)]
    if not any(part.strip() for part in parts):
        raise MisuseError(f"{where}: the instruction is empty")
    turns = [Turn(USER, "\n\n".join(parts))]
    name = next((name for name in ("output", "response") if name in value), None)
    if name:
        turns.append(Turn(ASSISTANT, string(value, name, where)))
    elif answer_needed:
        raise MisuseError(f"{where}: the instruction has neither 'output' nor 'response'")
    return turns


def parse_prompt(value: Mapping[str, Any], where: str) -> str:
    """The prompt, or the first of several turns, as in public sets of prompts."""
    if "prompt" in value:
        return string(value, "prompt", where)
    turns = value["turns"]
    if not isinstance(turns, list) or not turns or not isinstance(turns[0], str):
        raise MisuseError(f"{where}: 'turns' must be a list of strings")
    return turns[0]


def string(value: Mapping[str, Any], name: str, where: str) -> str:
    if not isinstance(value[name], str):
        raise MisuseError(f"{where}: '{name}' must be a string")
    return str(value[name])
