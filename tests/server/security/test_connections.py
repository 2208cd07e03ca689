"""The number of connections, and how long one may stay silent."""

import asyncio
import resource
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from common.address import parse_address
from common.models.checkpoint import load_tokenizer
from common.protocol.constraint import Constraint, Grammar
from common.protocol.errors import MisuseError
from common.rpc.channel import SERVER_OPTIONS
from common.rpc.errors import HungUpError
from common.rpc.stub import connect
from common.sampling.grammar import MOST_KEPT, Grammars
from server import assembly
from server.security import connections
from server.security.connections import MAX_CONNECTIONS, max_connections, reserved_descriptors
from tests.hostile.http2 import connected
from tests.server.harness import options_for, running


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Sets the soft and hard limits of file descriptors; 10 are open. Returns the limits that then hold."""
    held = [(0, 0)]
    monkeypatch.setattr(connections, "_open_descriptors", lambda: 10)
    monkeypatch.setattr(resource, "getrlimit", lambda _: held[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: held.append(wanted))
    return held


@pytest.mark.parametrize(
    ("soft", "hard", "found"),
    [
        (1024, 65536, MAX_CONNECTIONS),  # the limits of most systems
        (1024, resource.RLIM_INFINITY, MAX_CONNECTIONS),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, MAX_CONNECTIONS),
        (1024, 1024, 1024 - 106),
        (200, 200, 94),
    ],
)
def test_connections_are_as_many_as_there_are_file_descriptors_for(
    soft: int, hard: int, found: int, limits: list[tuple[int, int]]
) -> None:
    limits.append((soft, hard))
    assert max_connections(96) == found
    assert limits[-1][0] == resource.RLIM_INFINITY or limits[-1][0] >= found + 106


def test_no_descriptors_for_anybody_is_said(limits: list[tuple[int, int]]) -> None:
    limits.append((110, 110))
    with pytest.raises(MisuseError, match="110 file descriptors leave none for clients; allow 4202"):
        max_connections(96)


def test_descriptors_are_kept_for_the_constraint_of_every_session(checkpoint) -> None:
    tokenizer = load_tokenizer(checkpoint("llama"))
    grammars = Grammars(tokenizer, len(tokenizer), (2,))
    grammars(Constraint(Grammar.REGEX, "a"))
    before = connections._open_descriptors()
    held = [grammars(Constraint(Grammar.REGEX, f"a{{{number}}}")) for number in range(1, 41)]
    assert connections._open_descriptors() - before <= len(held) + MOST_KEPT
    reserved = [reserved_descriptors(max_sessions, 1) for max_sessions in (8, 8 + len(held))]
    assert reserved[1] - reserved[0] == len(held)
    assert reserved_descriptors(0, 2) > reserved_descriptors(0, 1) > 96


async def test_more_connections_than_the_server_takes_are_closed_at_once(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "max_connections", lambda _: 8)
    async with running(options_for(target)) as server, AsyncExitStack() as stack:
        first, *_ = [await stack.enter_async_context(connected(server.address)) for _ in range(8)]
        async with connect(server.address) as connection:
            with pytest.raises(HungUpError, match="too many connections"):
                await connection.describe(timeout=10)
        first.close()
        async with asyncio.timeout(30):
            while not await _is_let_in(server.address):
                await asyncio.sleep(0.1)


async def _is_let_in(address: str) -> bool:
    async with connect(address) as connection:
        try:
            return bool(await connection.describe(timeout=10))
        except HungUpError:
            return False


UNTIL_IT_BEGINS = ("grpc.server_handshake_timeout_ms", "grpc.http2.settings_timeout")
"""Options that bound how long a connection may say nothing."""


async def test_who_connects_and_says_nothing_is_left(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After ten seconds, which are shortened here."""
    hurried = tuple((name, 300 if name in UNTIL_IT_BEGINS else value) for name, value in SERVER_OPTIONS)
    monkeypatch.setattr(assembly, "SERVER_OPTIONS", hurried)
    async with running(options_for(target)) as server:
        address = parse_address(server.address)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        async with asyncio.timeout(60):
            with_greeting = await reader.read()
        assert len(with_greeting) < 200  # its own settings
        writer.close()


def test_a_connection_has_ten_seconds_to_begin() -> None:
    assert {dict(SERVER_OPTIONS)[name] for name in UNTIL_IT_BEGINS} == {10_000}
