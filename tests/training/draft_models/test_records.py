"""Data files: every format is read, and whatever is wrong is one sentence with file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from common.protocol.errors import MisuseError
from training.draft_models.records import ConversationRecord, Record, TextRecord, Turn, read_records

HELLO = (Turn("user", "Hi"), Turn("assistant", "Hello!"))


def read(folder: Path, name: str, content: str, answers_needed: bool = True) -> list[Record]:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return read_records([path], answers_needed)


def turns(record: Record) -> tuple[Turn, ...]:
    assert isinstance(record, ConversationRecord)
    return record.turns


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]},
        {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello!"}]},
        {"conversations": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]},
        {"instruction": "Hi", "output": "Hello!"},
        {"instruction": "Hi", "input": "", "response": "Hello!"},
    ],
)
@pytest.mark.parametrize("form", ["lines", "list"])
def test_every_format_gives_the_same_conversation(tmp_path: Path, value: dict[str, Any], form: str) -> None:
    if form == "lines":
        records = read(tmp_path, "data.jsonl", json.dumps(value) + "\n\n" + json.dumps(value))
        lines = [1, 3]
    else:
        records = read(tmp_path, "data.json", "[\n" + json.dumps(value) + ",\n\n" + json.dumps(value) + "\n]\n")
        lines = [2, 4]
    assert [turns(record) for record in records] == [HELLO, HELLO]
    assert [record.where.rsplit(" ", 1)[1] for record in records] == [str(line) for line in lines]
    assert records[0].digest == records[1].digest


def test_a_json_file_may_hold_lines(tmp_path: Path) -> None:
    records = read(tmp_path, "data.json", '{"instruction": "Hi", "output": "Hello!"}\n{"text": "Once."}\n')
    assert turns(records[0]) == HELLO
    assert isinstance(records[1], TextRecord)


def test_the_input_is_a_second_paragraph(tmp_path: Path) -> None:
    (record,) = read(tmp_path, "a.jsonl", '{"instruction": "Add.", "input": "1 2", "output": "3"}')
    assert turns(record)[0].content == "Add.\n\n1 2"


def test_paragraphs_know_their_lines(tmp_path: Path) -> None:
    records = read(tmp_path, "a.txt", "\none\ntwo\n\n \nthree")
    assert [(record.content, record.where[-1]) for record in records if isinstance(record, TextRecord)] == [
        ("one\ntwo", "2"),
        ("three", "6"),
    ]


def test_prompts_need_no_answers(tmp_path: Path) -> None:
    lines = ['{"prompt": "Hi", "id": 3}', '{"turns": ["Hi", "And?"]}', '{"instruction": "Hi"}']
    assert [turns(r) for r in read(tmp_path, "p.jsonl", "\n".join(lines), answers_needed=False)] == [HELLO[:1]] * 3


@pytest.mark.parametrize("missing", [{}, {"text": None}, {"text": "<user>Hi<assistant>Hello!"}])
@pytest.mark.parametrize(
    "value",
    [
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]},
        {"messages": None, "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello!"}]},
        {"messages": None, "instruction": "Hi", "input": None, "output": None, "response": "Hello!"},
    ],
)
def test_a_conversation_comes_before_its_text_and_null_is_nothing(
    tmp_path: Path, value: dict[str, Any], missing: dict[str, Any]
) -> None:
    (record,) = read(tmp_path, "a.jsonl", json.dumps({**missing, **value}))
    assert turns(record) == HELLO


def test_text_beside_null_is_text(tmp_path: Path) -> None:
    (record,) = read(tmp_path, "a.jsonl", '{"messages": null, "instruction": null, "text": "Once."}')
    assert isinstance(record, TextRecord)


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.jsonl", '{"text": "x"}\n{"text": "y"}', [1, 2]),
        ("a.json", '[{"text": "x"},\n{"text": "y"}]', [1, 2]),
        ("a.txt", "x\n\ny", [1, 3]),
    ],
)
def test_a_byte_order_mark_is_no_content(tmp_path: Path, name: str, content: str, lines: list[int]) -> None:
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
    records = read_records([tmp_path / name])
    assert [(record.texts, record.where) for record in records] == [
        ([text], f"{tmp_path / name}, line {line}") for text, line in zip("xy", lines, strict=True)
    ]


def test_lines_end_where_an_editor_ends_them(tmp_path: Path) -> None:
    records = read(tmp_path, "a.txt", "one\x0ctwo\u2028three\n\nfour")
    assert [record.texts for record in records] == [["one\x0ctwo\u2028three"], ["four"]]
    assert records[1].where.endswith("line 3")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", '{"text": "x"}\n{"messages": [', "line 2: this is no JSON"),
        ("a.jsonl", '{"text": "x"}\n[1]', "line 2: a record must be a JSON object"),
        ("a.jsonl", '\n{"prompt": "x"}', "line 2: the record has none of 'messages'"),
        ("a.jsonl", '{"messages": []}', "line 1: 'messages' must be a list of at least one turn"),
        ("a.jsonl", '{"messages": [{"role": "user"}]}', "line 1: turn 1 of 'messages' needs"),
        ("a.jsonl", '{"messages": ["hi"]}', "line 1: turn 1 of 'messages' needs"),
        ("a.jsonl", '{"conversations": [{"from": "alien", "value": "x"}]}', "unknown role 'alien'"),
        ("a.jsonl", '{"messages": [{"role": "user", "content": "x"}]}', "line 1: the conversation has no answer"),
        ("a.jsonl", '{"instruction": "x"}', "line 1: the instruction has neither"),
        ("a.jsonl", '{"instruction": "x", "output": 3}', "line 1: 'output' must be a string"),
        ("a.jsonl", '{"instruction": " ", "output": "x"}', "line 1: the instruction is empty"),
        ("a.jsonl", '{"text": " "}', "line 1: the text is empty"),
        ("a.json", '[\n{"text": "x"},\n{"text": oops}\n]', "line 3: this is no JSON"),
        ("a.json", '[\n{"text": "x"}\n{"text": "y"}\n]', "line 2: after this record a comma"),
        ("a.json", '[\n{"text": "x"},\n', "line 3: the list of records has no end"),
        ("a.json", '[\n{"text": "x"},\n{"text": 5}]', "line 3: the record has none of"),
        ("a.jsonl", '{"text": "x"}\n{"text": "hi \\ud83d"}', r"line 2: the text has \ud83d, which is half"),
        ("a.jsonl", '{"instruction": "x", "output": "\\ude00!"}', r"line 1: the text has \ude00, which is half"),
        ("a.json", '[\n{"messages": [{"role": "gpt", "content": "\\udfff"}]}]', "line 2: the text has"),
        ("a.jsonl", '{"messages": [{"role": "\\ud83d", "content": "x"}]}', "line 1: turn 1 has the unknown role ''"),
        ("a.jsonl", "\n" + "[" * 100_000, "line 2: this is no JSON"),
        ("a.json", "[\n" + "[" * 100_000, "line 2: this is no JSON"),
        ("a.json", "[\n" + "9" * 5000 + "]", "line 2: this is no JSON"),
        ("a.jsonl", "", "is empty"),
        ("a.json", "[]", "is empty"),
        ("a.txt", " \n\n", "is empty"),
        ("a.csv", "x", "name it .jsonl, .json or .txt"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, name: str, content: str, said: str) -> None:
    with pytest.raises(MisuseError, match=r"^[^\n]*$") as refused:
        read(tmp_path, name, content)
    assert said in str(refused.value)
    assert name in str(refused.value)
    assert str(refused.value).encode()


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"nowhere\.jsonl cannot be read"):
        read_records([tmp_path / "nowhere.jsonl"])
    (tmp_path / "x.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MisuseError, match="not UTF-8"):
        read_records([tmp_path / "x.jsonl"])
