"""The messages on the socket of a running `outrider serve`, and connections that carry them, one JSON object a line.

A client sends one `ServeRequest`, which is `Accepted` or `Declined`. For `outrider run` the events of one answer
follow; for `outrider chat`, `ChatBegun` and then the messages of a conversation from either end. Both ends are of one
version (`running.own_version`). Imports the standard library and errors alone; it may not know what a message leads to.
"""

import json
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self, get_args

from common.protocol.errors import MisuseError, OutriderError

if TYPE_CHECKING:
    import asyncio

LONGEST_LINE_BYTES = 1 << 26
_MOST_UNREAD_BYTES = 1 << 20  # beyond this a reader is too slow for provisional text

Fields = dict[str, Any]
"""The fields of a dataclass of another module, which the receiving end restores."""


@dataclass(frozen=True, slots=True)
class ServeRequest:
    """The first message of a client. `server` is the address of the server to ask. `credentials`, `answer`, `offline`
    and `choice` are the fields of `Credentials` (paths apart from other values), `AnswerFlags`, `OfflineFlags` and
    `DraftChoice`. `question` are those of a `Question`, None for a chat; what follows is for `outrider run` alone.
    """

    version: str
    server: str
    credentials: dict[str, Fields]
    answer: Fields
    offline: Fields
    choice: Fields
    pace_draft_ms: float
    question: Fields | None
    is_shown: bool = True  # to a person; otherwise only the outcome is sent
    is_live: bool = False  # on a terminal, which can take provisional text back


@dataclass(frozen=True, slots=True)
class Declined:
    """The client loads what it needs itself; `reason` is empty if the user does not have to know why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer or the chat begins."""


@dataclass(frozen=True, slots=True)
class ChatBegun:
    """The fields of the `ServerDescription`, the name of the draft model, the file of the tokenizer, and whether the
    server was reached lately."""

    description: Fields
    draft: str
    tokenizer: str
    was_reached: bool


@dataclass(frozen=True, slots=True)
class Note:
    """A line for a person."""

    line: str


@dataclass(frozen=True, slots=True)
class Text:
    """Text that has become final, and the provisional text that now follows it."""

    final: str
    provisional: str


@dataclass(frozen=True, slots=True)
class Redraw:
    """The provisional text has changed, and is to be shown at once."""

    provisional: str


@dataclass(frozen=True, slots=True)
class TextEnd:
    """`unconfirmed` is drafted text that the target will not verify."""

    unconfirmed: str


@dataclass(frozen=True, slots=True)
class AnswerFinished:
    """The fields of the answer's `Outcome`; the last message."""

    outcome: Fields


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    """There is no answer, for the reason that the sentence says; the last message."""

    sentence: str
    is_misuse: bool

    @classmethod
    def of(cls, error: OutriderError) -> Self:
        return cls(str(error), isinstance(error, MisuseError))

    def error(self) -> OutriderError:
        return (MisuseError if self.is_misuse else OutriderError)(self.sentence)


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """The next prompt of a conversation, as tokens: `safe` ones, and those from the first private one on, if any.
    `settings` and `offline` are the fields of `Settings` and `OfflineOptions`. `is_held` if the user wants to be
    offline, `is_live` if provisional tokens are to be sent."""

    safe: Sequence[int]
    private: Sequence[int] | None
    settings: Fields
    offered: Sequence[int]
    offline: Fields
    is_held: bool
    is_live: bool


@dataclass(frozen=True, slots=True)
class ChatCancel:
    """The answer is to end."""


@dataclass(frozen=True, slots=True)
class ChatRetry:
    """The server is to be dialled now."""


@dataclass(frozen=True, slots=True)
class ChatTokens:
    """Tokens that have become final, and the provisional ones that now follow them."""

    committed: Sequence[int]
    provisional: Sequence[int]


@dataclass(frozen=True, slots=True)
class ChatLink:
    """The state of the link, as a `LinkState`'s value."""

    state: str


@dataclass(frozen=True, slots=True)
class ChatEnd:
    """The end of one answer: the fields of its `Answer`, or those of `AnswerFailed`. `is_private` and `is_sound` are
    the router's."""

    is_private: bool
    is_sound: bool
    answer: Fields | None = None
    failed: Fields | None = None


RunMessage = Note | Text | Redraw | TextEnd | AnswerFinished | AnswerFailed
ChatMessage = ChatBegun | ChatPrompt | ChatCancel | ChatRetry | ChatTokens | ChatLink | ChatEnd
Message = ServeRequest | Declined | Accepted | RunMessage | ChatMessage

_TYPES: dict[str, type[Message]] = {each.__name__: each for each in get_args(Message)}


class ConnectionLostError(Exception):
    """The other end is gone, or sends what is no message."""


def to_line(message: Message) -> bytes:
    return json.dumps({"type": type(message).__name__, **asdict(message)}).encode() + b"\n"


def from_line(line: bytes) -> Message:
    """Raises ConnectionLostError for a line that is not whole or no message."""
    try:
        fields = json.loads(line) if line.endswith(b"\n") else {}
        return _TYPES[fields.pop("type")](**fields)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ConnectionLostError from error


class BlockingConnection:
    """A connection without an event loop. After Ctrl-C it can still be read."""

    def __init__(self, connection: socket.socket):
        self.socket = connection
        self._lines = connection.makefile("rb")

    def send(self, message: Message) -> None:
        """Raises OSError."""
        self.socket.sendall(to_line(message))

    def receive(self) -> Message:
        """Raises ConnectionLostError."""
        try:
            return from_line(self._lines.readline())
        except OSError as error:
            raise ConnectionLostError from error

    def detach(self) -> socket.socket:
        """The socket, which this connection uses no more."""
        self._lines.close()
        return self.socket

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


class AsyncConnection:
    """A connection on an event loop."""

    def __init__(self, reader: "asyncio.StreamReader", writer: "asyncio.StreamWriter"):
        self._reader = reader
        self._writer = writer

    @property
    def keeps_up(self) -> bool:
        """Whether the other end reads what is sent."""
        return self._writer.transport.get_write_buffer_size() < _MOST_UNREAD_BYTES

    def send(self, message: Message) -> None:
        """Does nothing if the other end is gone, which the next `receive` finds."""
        with suppress(OSError):
            self._writer.write(to_line(message))

    async def receive(self) -> Message:
        """Raises ConnectionLostError."""
        try:
            return from_line(await self._reader.readline())
        except (OSError, ValueError) as error:
            raise ConnectionLostError from error

    async def ended(self) -> None:
        """Returns once the other end has no more to send."""
        with suppress(OSError):
            await self._reader.read(1)

    def close(self) -> None:
        self._writer.close()
