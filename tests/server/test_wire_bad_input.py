"""Bad input from clients: each fault is one clear sentence, and a session beside it is not affected."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from common.protocol.errors import MisuseError, PeerError
from common.protocol.messages import (
    PROTOCOL_VERSION,
    Ack,
    Extend,
    Failed,
    FailureCode,
    FromClient,
    Grow,
    GrownNode,
    Open,
    Opened,
    Settings,
)
from common.rpc.stub import Connection, connect
from server.options import Pace
from tests.server.client_turn import play
from tests.server.harness import new_session, options_for, running, with_sessions
from tests.server.proposers import nothing
from tests.server.reference import Reference

TOKENS = 40
SETTINGS = Settings(TOKENS)


def opening(fingerprint: str, **changes: object) -> Open:
    plain = Open(PROTOCOL_VERSION, fingerprint, "bad" * 8, turn=0, tokens=(5, 6), prompt_length=2, settings=SETTINGS)
    return replace(plain, **changes)  # type: ignore[arg-type]


def chain(count: int, first: int = 1, parent: int = 0) -> tuple[GrownNode, ...]:
    return tuple(GrownNode(first + i, first + i - 1 if i else parent, 9, -1.0) for i in range(count))


FAULTS: dict[str, tuple[Callable[[str], list[FromClient]], FailureCode, str]] = {
    "no Open": (lambda f: [Ack(0, 1)], FailureCode.PROTOCOL, "first frame"),
    "second Open": (lambda f: [opening(f), opening(f)], FailureCode.PROTOCOL, "first frame"),
    "version": (lambda f: [opening(f, version=99)], FailureCode.VERSION, "protocol version 99"),
    "fingerprint": (lambda f: [opening("other")], FailureCode.MODEL, "another target"),
    "empty prompt": (lambda f: [opening(f, tokens=(), prompt_length=0)], FailureCode.INVALID, "empty"),
    "long prompt": (
        lambda f: [opening(f, tokens=(5,) * 2048, prompt_length=2048)],
        FailureCode.INVALID,
        "2048 tokens, but this model's maximum context length is 2048 tokens",
    ),
    "foreign token": (lambda f: [opening(f, tokens=(5, 300))], FailureCode.INVALID, "vocabulary of 300"),
    "rule": (lambda f: [opening(f, settings=Settings(9, rule="luck"))], FailureCode.INVALID, "rule 'luck'"),
    "never-seen parent": (
        lambda f: [opening(f), Grow(0, 2, (GrownNode(7, 0, 3, -1.0), GrownNode(9, 8, 3, -1.0)))],
        FailureCode.PROTOCOL,
        "never sent",
    ),
    "oversized Grow": (lambda f: [opening(f), Grow(0, 2, chain(513))], FailureCode.PROTOCOL, "513 nodes"),
    "oversized tree": (
        lambda f: [
            opening(f, settings=Settings(9, idle="lockstep")),
            Grow(0, 2, chain(300)),
            Grow(0, 2, chain(300, first=301, parent=300)),
        ],
        FailureCode.PROTOCOL,
        "more than the 512",
    ),
    "foreign node": (
        lambda f: [opening(f), Grow(0, 2, (GrownNode(1, 0, 300, -1.0),))],
        FailureCode.PROTOCOL,
        "outside the vocabulary",
    ),
    "log-probability": (
        lambda f: [opening(f), Grow(0, 2, (GrownNode(1, 0, 3, 0.5),))],
        FailureCode.PROTOCOL,
        "log-probability",
    ),
    "frontier ahead": (lambda f: [opening(f), Ack(0, 10_000)], FailureCode.PROTOCOL, "frontier 10000"),
    "Extend in mid-answer": (lambda f: [opening(f), Extend(1, 2, (3,), SETTINGS)], FailureCode.PROTOCOL, "not allowed"),
}


async def reply_to(connection: Connection, messages: list[FromClient]) -> Failed:
    stream = connection.generate()
    for message in messages:
        stream.send(message)
    while True:
        reply = await stream.receive()
        assert reply is not None, "the stream ended without a word"
        if isinstance(reply, Failed):
            assert await stream.receive() is None
            return reply


async def test_faults_end_their_session_alone(target: Path, reference: Callable[[str], Reference]) -> None:
    options = with_sessions(options_for(target), pace=Pace(per_pass=0.02))
    async with running(options) as server, connect(server.address) as connection:
        good = await new_session(connection)
        stream = connection.generate()
        playing = asyncio.create_task(play(good, stream, good.open([5, 6], Settings(200)), nothing))
        fingerprint = (await connection.describe()).fingerprint
        for name, (messages, code, sentence) in FAULTS.items():
            reply = await reply_to(connection, messages(fingerprint))
            assert (reply.code, sentence in reply.message) == (code, True), (name, reply)
        assert await playing == reference("llama").answer([5, 6], 200)
        stream.close()


async def test_why_it_failed_reaches_a_client_that_reads_late(target: Path) -> None:
    async with running(options_for(target)) as server, connect(server.address) as connection:
        stream = connection.generate()
        stream.send(opening((await connection.describe()).fingerprint))
        stream.send(Ack(0, 10_000))
        while len(server.engine.sessions) or not server.engine.counters.failed:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        messages = []
        while (message := await stream.receive()) is not None:
            messages.append(message)
        assert isinstance(messages[0], Opened)
        assert isinstance(messages[-1], Failed)


async def test_what_is_too_long_to_be_sent_fails_alone_and_as_no_broken_link(target: Path) -> None:
    async with running(options_for(target)) as server, connect(server.address) as connection:
        fingerprint = (await connection.describe()).fingerprint
        reply = await reply_to(connection, [opening(fingerprint, tokens=(5,) * 1_000_000)])
        assert reply.code is FailureCode.INVALID
        stream = connection.generate()
        stream.send(opening(fingerprint, tokens=(5,) * 1_100_000))
        with pytest.raises(MisuseError, match="too long to be sent"):
            await asyncio.wait_for(stream.receive(), 20)
        stream = connection.generate()
        stream.send(opening(fingerprint))
        assert isinstance(await stream.receive(), Opened)


async def test_bytes_that_are_no_frame_end_their_stream_alone(target: Path) -> None:
    async with running(options_for(target)) as server, connect(server.address) as connection:
        raw = connection._channel.stream_stream("/outrider.v1.Outrider/Generate")()
        await raw.write(b"\xff\xff\xff\xff")
        assert b"cannot be decoded" in await raw.read()
        assert (await connection.describe()).vocab_size == 300


async def test_more_sessions_than_allowed_are_refused(target: Path) -> None:
    options = with_sessions(options_for(target), max_sessions=1, run_ahead=2)
    async with running(options) as server, connect(server.address) as connection:
        first, second = await new_session(connection), await new_session(connection)
        stream = connection.generate()
        stream.send(first.open([5], SETTINGS))
        await stream.receive()
        with pytest.raises(PeerError, match="another session"):
            await play(second, connection.generate(), second.open([5], SETTINGS), nothing)


async def test_a_stream_that_ended_while_it_was_written_gives_its_place_back(target: Path) -> None:
    """A connection allows 256 streams; on none of these was the server's last message read."""
    async with running(options_for(target)) as server, connect(server.address) as connection:
        fingerprint = (await connection.describe()).fingerprint
        for number in range(300):
            stream = connection.generate()
            stream.send(opening(fingerprint, session=f"{number:032}"))
            for _ in range(30):
                stream.send(Ack(0, 10_000))
            while not (stream._writer.done() or stream._outgoing.empty()):
                await asyncio.sleep(0)
            stream.close()
        stream = connection.generate()
        stream.send(opening(fingerprint))
        assert isinstance(await asyncio.wait_for(stream.receive(), 20), Opened)
