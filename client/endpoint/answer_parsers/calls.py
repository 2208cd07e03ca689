"""Finds tool calls in an answer, whatever their syntax: text before a call is content at once, a call is held back
until it is whole, and what turns out to be no call is content after all. Pure.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from client.endpoint.answer_parsers.growing_json import GrowingJson, ReadJson, read_json
from client.endpoint.answer_parsers.pieces import NewId, Piece, TextPiece, ToolCall
from common.protocol.constraint import in_lark

Mark = Callable[[str], str]
"""A text that may be a special token of the tokenizer, as a grammar names it."""


@dataclass(frozen=True, slots=True)
class Call:
    """`arguments` is a JSON object as text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ReadCalls:
    """Calls, and how many characters they take."""

    calls: tuple[Call, ...]
    length: int


NO_CALL = ReadCalls((), 0)

NO_OBJECT = re.compile(r"\s*[^\s{]")
"""What stands where a JSON object would, and is none."""

_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
"""The arguments of a function that describes none."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The mark with which calls begin wherever they stand, and the `rest` behind it in terms of the rule `call`."""

    mark: str
    rest: Callable[[Mark], str]


class CallSyntax(Protocol):
    """How the models of a family write calls. `marks` are texts that may be tokens of their own; `opening` is None
    where calls may begin without any."""

    @property
    def name(self) -> str: ...

    @property
    def marks(self) -> tuple[str, ...]: ...

    @property
    def opening(self) -> Opening | None: ...

    def begin(self, text: str, *, is_first: bool) -> int:
        """Where a call begins or may begin, the text's length if nowhere; `is_first`: nothing but calls precedes."""

    def grammar(self, functions: Sequence[Mapping[str, Any]], mark: Mark, *, several: bool) -> str:
        """What an answer of nothing but calls of these functions is, one call or `several`, in Lark's notation."""

    def rules(self, functions: Sequence[Mapping[str, Any]], mark: Mark) -> str:
        """The rule `call` in Lark's notation, one call of one of the functions, and those that it needs."""

    def read(self, text: str, offered: Collection[str], read_json: ReadJson, *, is_whole: bool) -> ReadCalls | None:
        """The calls at the beginning of a text; `NO_CALL` if it begins otherwise, None if only more text can tell.
        `offered` are names of functions, `read_json` reads the text's JSON; `is_whole`: no more text will come."""


class CallParser:
    def __init__(self, syntax: CallSyntax, offered: Collection[str], new_id: NewId):
        self._syntax = syntax
        self._offered = offered
        self._new_id = new_id
        self._held = ""
        self._json = GrowingJson()  # of what is held
        self._is_first = True
        self._follows_call = False

    def feed(self, text: str) -> Sequence[Piece]:
        self._held += text
        return self._take(is_whole=False, is_end=False)

    def end(self, *, is_cut: bool) -> Sequence[Piece]:
        pieces = self._take(is_whole=not is_cut, is_end=True)
        blank, self._held = self._held, ""
        return pieces if self._follows_call or not blank else [*pieces, TextPiece(blank)]

    def _take(self, *, is_whole: bool, is_end: bool) -> list[Piece]:
        """What is certain of the text that is held; blanks before what may be a call are held too."""
        pieces: list[Piece] = []
        while True:
            written = self._held[: self._syntax.begin(self._held, is_first=self._is_first)].rstrip()
            if written:
                pieces.append(self._text(len(written)))
            rest = self._held.lstrip()
            if not rest:
                return pieces
            reader = read_json if is_end else self._json.read
            read = self._syntax.read(rest, self._offered, reader, is_whole=is_whole)
            if read is None and not is_end and not self._json.is_broken:
                return pieces
            if read is None or read is NO_CALL:
                pieces.append(self._text(len(self._held) - len(rest) + 1))
                continue
            pieces += [ToolCall(self._new_id(), call.name, call.arguments) for call in read.calls]
            self._held, self._follows_call = rest[read.length :], True
            self._json = GrowingJson()

    def _text(self, length: int) -> TextPiece:
        """So much of what is held, as content."""
        text, self._held = self._held[:length], self._held[length:]
        self._json = GrowingJson()
        text = text.lstrip() if self._follows_call else text
        self._is_first = self._follows_call = False
        return TextPiece(text)


def object_rules(functions: Sequence[Mapping[str, Any]], arguments: str = "arguments") -> str:
    """`call_rules` of calls that are JSON objects; `arguments` is the key of these."""

    def before(name: str) -> str:
        return json.dumps(f'{{"name": {json.dumps(name)}, "{arguments}": ')

    return call_rules(functions, before, '"}"')


def call_rules(functions: Sequence[Mapping[str, Any]], before: Callable[[str], str], after: str = "") -> str:
    """The rule `call` in Lark's notation: what stands `before` the arguments of a function of that name, they, and what
    stands `after` them. Functions are described as OpenAI does. Each schema is a rule of its own, so that what it
    refers to is found in it."""
    calls, rules = [], []
    for index, function in enumerate(functions):
        calls.append(f"{before(function['name'])} arguments_{index} {after}".rstrip())
        rules.append(in_lark(f"arguments_{index}", function.get("parameters") or _NOTHING))
    return "\n".join([f"call: {' | '.join(calls)}", *rules])


def as_call(value: Any) -> Call | None:
    """The call that a JSON value describes, with its arguments or parameters; None for another value."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return None
    return make_call(value["name"], value.get("arguments", value.get("parameters", {})))


def make_call(name: str, arguments: Any) -> Call | None:
    """None for arguments that are no JSON object, or cannot be sent."""
    if not isinstance(arguments, dict):
        return None
    try:
        call = Call(name, json.dumps(arguments, ensure_ascii=False, allow_nan=False))
        (call.name + call.arguments).encode()  # half a surrogate pair cannot be sent
    except ValueError:
        return None
    return call
