"""client.local_serve.messages: one end receives what the other sends; all else is a lost connection."""

import asyncio
import socket

import pytest

from client.local_serve import messages
from client.local_serve.messages import AsyncConnection, BlockingConnection, ConnectionLostError, from_line, to_line
from common.protocol.errors import MisuseError, OutriderError

REQUEST = messages.ServeRequest(
    "1", "gpu:7070", {"paths": {}, "values": {}}, {}, {}, {"draft": None}, 0.0, {"prompt": "Hi"}
)
SENT = [
    REQUEST,
    messages.Declined("it drafts nothing"),
    messages.Accepted(),
    messages.ChatBegun({"model": "demo"}, "moa", "/cache/tokenizer", was_reached=True),
    messages.Note("a line"),
    messages.Text("ä\n", "provisional"),
    messages.Redraw("p"),
    messages.TextEnd(""),
    messages.AnswerFinished({"result": {"token_ids": [1]}}),
    messages.AnswerFailed("the server is full", is_misuse=False),
    messages.ChatPrompt([1], [2], {"rule": "greedy"}, [], {"wait_s": 1.0}, is_held=False, is_live=True),
    messages.ChatCancel(),
    messages.ChatRetry(),
    messages.ChatTokens([1, 2], []),
    messages.ChatLink("offline"),
    messages.ChatEnd(is_private=False, is_sound=True, answer={"tokens": [1]}),
]
NO_MESSAGES = [
    b"",
    b"\n",
    b"nonsense\n",
    b"[]\n",
    b"{}\n",
    b'{"type": "Unknown"}\n',
    b'{"type": []}\n',
    b'{"type": "Text"}\n',
    b'{"type": "Text", "final": "", "provisional": "", "more": 1}\n',
    to_line(messages.Accepted())[:-1],
    b"[" * 100_000 + b"\n",
]


def test_every_kind_of_message_is_tried() -> None:
    assert {type(each).__name__ for each in SENT} == set(messages._TYPES)


@pytest.mark.parametrize("message", SENT, ids=lambda each: type(each).__name__)
def test_what_is_sent_is_received(message) -> None:
    line = to_line(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert from_line(line) == message


@pytest.mark.parametrize("line", NO_MESSAGES, ids=range(len(NO_MESSAGES)))
def test_what_is_no_message_loses_the_connection(line) -> None:
    with pytest.raises(ConnectionLostError):
        from_line(line)


def test_an_error_stays_of_its_kind() -> None:
    for error in (MisuseError("one"), OutriderError("two")):
        again = messages.AnswerFailed.of(error).error()
        assert (type(again), str(again)) == (type(error), str(error))


async def test_both_connections_end_alike() -> None:
    ours, theirs = socket.socketpair()
    blocking = BlockingConnection(ours)
    awaiting = AsyncConnection(*await asyncio.open_unix_connection(sock=theirs))
    blocking.send(REQUEST)
    assert await awaiting.receive() == REQUEST
    awaiting.send(messages.Accepted())
    assert await asyncio.to_thread(blocking.receive) == messages.Accepted()
    awaiting.close()
    with pytest.raises(ConnectionLostError):
        await asyncio.to_thread(blocking.receive)
    blocking.close()


async def test_a_client_that_ends_is_noticed() -> None:
    ours, theirs = socket.socketpair()
    awaiting = AsyncConnection(*await asyncio.open_unix_connection(sock=theirs))
    ours.close()
    with pytest.raises(ConnectionLostError):
        await awaiting.receive()
    await awaiting.ended()
    awaiting.send(messages.Accepted())
    awaiting.close()
