"""Calls are found in the syntax of each family, however the text comes, and nothing else is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.endpoint.answer_parsers.answer_format import SYNTAXES
from client.endpoint.answer_parsers.calls import CallParser
from client.endpoint.answer_parsers.pieces import Piece, TextPiece
from tests.client.endpoint.answer_parsers.feeding import FEW, SIZES, call, joined, parsed

ADD = call("add", '{"a": 1, "b": "</tool_call>}{"}')
LOOK = call("look", "{}")
AS_JSON = '{"name": "add", "arguments": {"a": 1, "b": "</tool_call>}{"}}'
AS_PARAMETERS = AS_JSON.replace("arguments", "parameters")
OTHER = '{"name": "other", "parameters": {}}'
LOOKS = '{"name": "look", "parameters": {}}'

ANSWERS: list[tuple[str, str, list[Piece]]] = [
    ("hermes", f"<tool_call>\n{AS_JSON}\n</tool_call>", [ADD]),
    (
        "hermes",
        f"I add.\n<tool_call>{AS_JSON}</tool_call>\n<tool_call>{LOOKS}</tool_call>\n",
        [TextPiece("I add."), ADD, LOOK],
    ),
    ("hermes", f"<tool_call>{AS_JSON}", [ADD]),
    ("hermes", '<tool_call>{"name": "look"}</tool_call> done ', [LOOK, TextPiece("done ")]),
    ("hermes", '<tool_call>{"name": "look", "arguments": {"t": "a\nb"}}</tool_call>', [call("look", '{"t": "a\\nb"}')]),
    ("llama3-json", AS_PARAMETERS, [ADD]),
    ("llama3-json", f" {AS_PARAMETERS} ; {LOOKS}\n", [ADD, LOOK]),
    ("llama3-json", f"<|python_tag|>{AS_PARAMETERS}; {LOOKS}", [ADD, LOOK]),
    ("llama3-json", f"Well <|python_tag|>{OTHER}", [TextPiece("Well"), call("other", "{}")]),
    ("mistral", f"[TOOL_CALLS][{AS_JSON}, {LOOKS}]", [ADD, LOOK]),
    ("mistral", f"[TOOL_CALLS] {AS_JSON}", [ADD]),
    (
        "mistral",
        f"Yes.[TOOL_CALLS]add[ARGS]{ADD.arguments}[TOOL_CALLS]look[CALL_ID]a1[ARGS]{{}}",
        [TextPiece("Yes."), ADD, LOOK],
    ),
    ("mistral", "[TOOL_CALLS]null_check[ARGS]{}", [call("null_check", "{}")]),
    ("mistral", "[TOOL_CALLS]2fa[CALL_ID]a1[ARGS]{}[TOOL_CALLS] true[ARGS]{}", [call("2fa", "{}"), call("true", "{}")]),
]

NO_CALLS = [
    ("hermes", "<tool_call>no JSON</tool_call>"),
    ("hermes", '<tool_call>["add"]</tool_call>'),
    ("hermes", '<tool_call>{"name": 3}</tool_call>'),
    ("hermes", '<tool_call>{"name": "add", "arguments": "a"}</tool_call>'),
    ("hermes", '<tool_call>{"name": "add", "arguments": {"a": NaN}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "add", "arguments": {"a": "\\ud800"}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "add"} and more</tool_call>'),
    ("hermes", "a < b, <tool, <tool_cal"),
    ("llama3-json", '{"answer": 42}'),
    ("llama3-json", '{"name": "unknown", "parameters": {}}'),
    ("llama3-json", '{"name": "add"}'),
    ("llama3-json", f"As JSON: {AS_PARAMETERS}"),
    ("llama3-json", "<|python_tag|>print(1)"),
    ("mistral", "[TOOL_CALLS]nothing"),
    ("mistral", "[TOOL_CALLS]2 of them"),
    ("mistral", f"[TOOL_CALLS][{LOOKS}, 3]"),
    ("mistral", "[1] [TOOL"),
]


def parser(name: str) -> CallParser:
    return CallParser(SYNTAXES[name](), {"add", "look"}, lambda: "id")


@pytest.mark.parametrize(("name", "text", "pieces"), ANSWERS)
@given(sizes=SIZES)
@FEW
def test_calls_are_found_however_they_come(name, text, pieces, sizes):
    assert parsed(parser(name), text, sizes) == pieces


@pytest.mark.parametrize(("name", "text"), NO_CALLS)
@given(sizes=SIZES, is_cut=st.booleans())
@FEW
def test_what_is_no_call_stays_as_it_is(name, text, sizes, is_cut):
    assert parsed(parser(name), text, sizes, is_cut=is_cut) == [TextPiece(text)]


PARTS = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "[TOOL_CALLS]",
        "[CALL_ID]",
        "[ARGS]",
        "<|python_tag|>",
        AS_JSON,
        LOOKS,
        "add",
        "{",
        "}",
        "[",
        ";",
    ]
)


@given(st.sampled_from(list(SYNTAXES)), st.lists(PARTS | st.text(max_size=4)).map("".join), SIZES)
def test_pieces_do_not_depend_on_how_the_text_came_and_text_without_calls_is_whole(name, text, sizes):
    pieces = parsed(parser(name), text, sizes)
    assert pieces == parsed(parser(name), text, [len(text) + 1])
    if all(isinstance(piece, TextPiece) for piece in pieces):
        assert pieces == ([TextPiece(text)] if text else [])


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, text, _ in ANSWERS])
def test_a_call_that_is_cut_is_text_and_those_before_it_are_calls(name, text):
    for end in range(len(text.rstrip())):
        pieces = parsed(parser(name), text[:end], is_cut=True)
        whole = parsed(parser(name), text[:end], is_cut=False)
        made = [piece for piece in pieces if not isinstance(piece, TextPiece)]
        assert made == [piece for piece in whole if not isinstance(piece, TextPiece)][: len(made)]
        if not made:
            assert pieces == ([TextPiece(text[:end])] if end else [])


@pytest.mark.parametrize(("name", "mark"), [("hermes", "<tool_call>"), ("mistral", "[TOOL_CALLS]")])
def test_text_is_not_held_back_once_it_cannot_begin_a_call(name, mark):
    reader = parser(name)
    assert joined(reader.feed(f"one {mark[:4]}")) == [TextPiece("one")]
    assert joined(reader.feed("x two")) == [TextPiece(f" {mark[:4]}x two")]
    assert reader.feed(mark) == []


@pytest.mark.parametrize(
    ("name", "held", "more"),
    [
        ("mistral", "[TOOL_CALLS]add[ARGS]{", "'a': 1"),
        ("mistral", "[TOOL_CALLS]add[ARGS]{1", "}"),
        ("mistral", '[TOOL_CALLS]add[ARGS]{"a": "}", ', "b"),
        ("mistral", "[TOOL_CALLS] ", "[1"),
        ("mistral", "[TOOL_CALLS][", " true"),
        ("mistral", "[TOOL_CALLS][", '"a'),
        ("mistral", f"[TOOL_CALLS][{LOOKS},", " look"),
        ("mistral", f"[TOOL_CALLS][{LOOKS}, 3", "]"),
        ("mistral", "[TOOL_CALLS]{1", "}"),
        ("hermes", "<tool_call>\n", "no"),
        ("hermes", "<tool_call>", "[1"),
        ("hermes", "<tool_call>{1", "}"),
        ("hermes", "<tool_call>{", "'name'"),
        ("hermes", '<tool_call>{"name": "look"}\n</tool', "_response>"),
        ("llama3-json", "{1", "}"),
        ("llama3-json", "{", "'name'"),
        ("llama3-json", "<|python_tag|>{", "\\"),
    ],
)
def test_text_flows_as_soon_as_it_cannot_become_a_call(name, held, more):
    reader = parser(name)
    assert reader.feed(held) == []
    assert joined(reader.feed(more)) == [TextPiece(f"{held}{more}")]


@pytest.mark.parametrize(
    ("held", "more"),
    [
        ("2", " of them"),
        (" add", " it"),
        ("add[CALL", "]"),
        ("add[CALL_ID]", "["),
        ("add[CALL_ID]a1[", "C"),
        ("add[ARGS", "{"),
        ("add[ARGS] ", "what"),
        ("add[ARGS]", "[1"),
    ],
)
def test_a_mistral_call_is_held_back_while_its_arguments_may_come(held, more):
    reader = parser("mistral")
    assert reader.feed(f"[TOOL_CALLS]{held}") == []
    assert joined(reader.feed(f"{more} and")) == [TextPiece(f"[TOOL_CALLS]{held}{more} and")]
