"""What a chat says when `outrider serve` is gone and the one that runs by then does not take it, without servers."""

import socket
from dataclasses import asdict
from types import SimpleNamespace

from client.local_serve import chat_client, messages
from client.local_serve.chat_client import SocketChatClient
from client.local_serve.messages import Declined
from common.rpc.description import ServerDescription


async def test_why_another_serve_declined_is_said_when_the_draft_is_loaded(capsys) -> None:
    description = ServerDescription(1, "0.1", "model", "f", 300, 2048, 512, (0,), ("greedy",), ("eager",), ())
    ours, theirs = socket.socketpair()
    begun = messages.ChatBegun(asdict(description), "draft", "tokenizer", True)
    opened = chat_client._OpenedChat(messages.BlockingConnection(ours), begun)

    async def load() -> SimpleNamespace:
        return SimpleNamespace(description=description)

    client = SocketChatClient(opened, None, lambda: Declined("it has no place"), load)  # type: ignore[arg-type]
    (await client.connected()).close()
    theirs.close()
    assert await client.connected() is None
    await client.loaded()
    assert capsys.readouterr().err == "it has no place; the draft is loaded here\n"
