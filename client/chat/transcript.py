"""The transcript of a conversation, and its text form: JSON for programs, Markdown for people.

Pure. May know the marks of private text; it may not know files, tokenizers, sessions or screens.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from client.private.spans import as_private, before_private
from client.text import Message, check_system, system_messages, valid_text
from common.protocol.errors import MisuseError

if TYPE_CHECKING:
    from client.answering import AnswerOptions

_USER, _ASSISTANT = "user", "assistant"
_PRIVATE, _UNCONFIRMED = "private", "unconfirmed"

_TITLE = "# A conversation with"
_SYSTEM = "## System prompt"
_NO_CONVERSATION = "it is no conversation as /save writes one"

_HEADING = re.compile(r"^## (Question|Answer)(?: \(([a-z, ]+)\))?$", re.MULTILINE)
_LIKE_A_HEADING = re.compile(r"^(\\*## (?:Question|Answer)\b)", re.MULTILINE)
_ESCAPED_HEADING = re.compile(r"^\\(\\*## (?:Question|Answer)\b)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DraftedAnswer:
    """Tokens that a draft wrote for an answer, what the answer was asked to be, and under which system prompt."""

    tokens: tuple[int, ...]
    options: "AnswerOptions"
    system: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question, with the marks of what in it is private, and its answer, None if none came.

    What is `private` must not leave this machine. Of an answer that is not `confirmed` no target has judged the end;
    `drafted` is how to have it judged, if that is known.
    """

    question: str
    answer: str | None = None
    private: bool = False
    confirmed: bool = True
    drafted: DraftedAnswer | None = None


Transcript = tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class SavedChat:
    """What a file holds of a chat. `system` is its system prompt, empty for none; older files tell none."""

    exchanges: Transcript
    system: str = ""


def answered(exchanges: Iterable[Exchange]) -> Transcript:
    """The exchanges that later ones can build upon."""
    return tuple(each for each in exchanges if each.answer is not None)


def messages(exchanges: Iterable[Exchange], question: str, system: str = "") -> list[Message]:
    """What is read before the question is answered, the first that is private in a span of it."""
    listed = system_messages(system)
    for each in kept_private(answered(exchanges)):
        listed += [{"role": _USER, "content": each.question}, {"role": _ASSISTANT, "content": str(each.answer)}]
    return [*listed, {"role": _USER, "content": question}]


def as_json(saved: SavedChat, model: str) -> str:
    listed: list[dict[str, Any]] = []
    for each in kept_private(saved.exchanges):
        marks: dict[str, Any] = {_PRIVATE: True} if each.private else {}
        listed.append({"role": _USER, "content": each.question, **marks})
        if each.answer is not None:
            marks |= {} if each.confirmed else {_UNCONFIRMED: True}
            listed.append({"role": _ASSISTANT, "content": each.answer, **marks})
    system = {"system": saved.system} if saved.system else {}
    return json.dumps({"model": model, **system, "messages": listed}, ensure_ascii=False, indent=2) + "\n"


def from_json(text: str) -> SavedChat:
    """What `as_json` wrote, with everything private in it marked so. Raises MisuseError for anything else."""
    try:
        loaded = json.loads(text)
        parts = [(each["role"], each["content"], _marks_of(each)) for each in loaded["messages"]]
        system = loaded.get("system", "")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MisuseError(_NO_CONVERSATION) from error
    return SavedChat(_paired(parts), _system(system))


def as_markdown(saved: SavedChat, model: str) -> str:
    blocks = [f"{_TITLE} {' '.join(model.split())}"]
    if saved.system:
        blocks.append(f"{_SYSTEM}\n\n{_escaped(saved.system)}")
    for each in kept_private(saved.exchanges):
        marks = [_PRIVATE] if each.private else []
        blocks.append(_block("Question", marks, each.question))
        if each.answer is not None:
            blocks.append(_block("Answer", marks if each.confirmed else [*marks, _UNCONFIRMED], each.answer))
    return "\n\n".join(blocks) + "\n"


def from_markdown(text: str) -> SavedChat:
    """What `as_markdown` wrote, with everything private in it marked so. Raises MisuseError for anything else."""
    before, *pieces = _HEADING.split(text + "\n")
    start, _, system = before.partition(f"\n\n{_SYSTEM}")
    title = start.strip()
    if not title.startswith(_TITLE) or "\n" in title:
        raise MisuseError(_NO_CONVERSATION)
    parts = []
    for who, marks, block in zip(*[iter(pieces)] * 3, strict=True):
        parts.append((_USER if who == "Question" else _ASSISTANT, _content(block), (marks or "").split(", ")))
    return SavedChat(_paired(parts), _system(_content(system)))


def _block(who: str, marks: Sequence[str], content: str) -> str:
    heading = f"## {who} ({', '.join(marks)})" if marks else f"## {who}"
    return f"{heading}\n\n{_escaped(content)}"


def _escaped(content: str) -> str:
    return _LIKE_A_HEADING.sub(r"\\\1", content)


def _content(block: str) -> str:
    """Of a block behind its heading."""
    return _ESCAPED_HEADING.sub(r"\1", block.removeprefix("\n\n").removesuffix("\n\n"))


def _marks_of(message: dict[str, Any]) -> list[str]:
    return [mark for mark in (_PRIVATE, _UNCONFIRMED) if message.get(mark)]


def _paired(parts: Sequence[tuple[object, object, Sequence[str]]]) -> Transcript:
    exchanges: list[Exchange] = []
    for number, (role, content, marks) in enumerate(parts, 1):
        text, is_private = _text(content, f"message {number}"), _PRIVATE in marks
        if role == _USER and answered(exchanges) == tuple(exchanges):
            before_private(text)  # fails now if its spans cannot be
            exchanges.append(Exchange(text, private=is_private))
        elif role == _ASSISTANT and exchanges and exchanges[-1].answer is None:
            is_private = is_private or exchanges[-1].private
            confirmed = _UNCONFIRMED not in marks
            exchanges[-1] = replace(exchanges[-1], answer=text, private=is_private, confirmed=confirmed)
        else:
            raise MisuseError(f"message {number} is out of turn; user and assistant speak in turns, the user first")
    return kept_private(exchanges)


def _system(content: object) -> str:
    text = _text(content, "the system prompt")
    check_system(text)
    return text


def _text(content: object, what: str) -> str:
    try:
        if isinstance(content, str):
            return valid_text(content)
    except UnicodeError:
        pass
    raise MisuseError(f"{what} is not valid text")


def kept_private(exchanges: Sequence[Exchange]) -> Transcript:
    """With all private that follows what is, and a span in the first question of it, so that nothing of it leaves this
    machine whatever is asked next."""
    is_marked = [before_private(each.question) is not None for each in exchanges]
    first = next((at for at, each in enumerate(exchanges) if each.private or is_marked[at]), None)
    if first is None:
        return tuple(exchanges)
    opening = exchanges[first]
    question = opening.question if is_marked[first] else as_private(opening.question)
    behind = [replace(opening, question=question), *exchanges[first + 1 :]]
    return (*exchanges[:first], *(replace(each, private=True) for each in behind))
