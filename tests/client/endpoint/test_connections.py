"""Connections that send nothing, or read nothing, are closed; however many there are, another one is served."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
import uvicorn

from client.endpoint import connections
from client.endpoint.connections import BACKLOG, TimedConnection

ASKS = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
LONG = b"x" * (8 << 20)


async def app(scope, receive, send):
    """A long answer is more than any buffer holds."""
    body = LONG if scope["path"] == "/long" else b"ok"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def served():
    """Its port."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        config = uvicorn.Config(app, log_level="critical", lifespan="off", http=TimedConnection, backlog=BACKLOG)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([port]))
        try:
            yield port.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await serving


async def dialled(port: int, sent: bytes = b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    return reader, writer


async def has_ended(reader: asyncio.StreamReader) -> bool:
    """Waits for the end of the connection; hangs if it never comes."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def answer(port: int) -> bytes:
    reader, writer = await dialled(port, ASKS)
    try:
        return (await reader.readuntil(b"ok"))[:15]
    finally:
        writer.close()


async def test_headers_that_do_not_come_are_not_waited_for(monkeypatch):
    monkeypatch.setattr(connections, "_HEADERS_TIMEOUT_S", 0.05)
    async with served() as port:
        for sent in (b"", b"GET / HT", ASKS[:-2]):
            reader, _ = await dialled(port, sent)
            assert await has_ended(reader)


async def test_nor_those_of_a_further_request(monkeypatch):
    monkeypatch.setattr(connections, "_HEADERS_TIMEOUT_S", 0.05)
    async with served() as port:
        reader, writer = await dialled(port, ASKS)
        await reader.readuntil(b"ok")
        writer.write(b"GET / HT")
        assert await has_ended(reader)


async def test_who_asks_again_is_answered_again():
    async with served() as port:
        reader, writer = await dialled(port)
        for _ in range(3):
            writer.write(ASKS)
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_who_does_not_read_is_cut_off(monkeypatch):
    monkeypatch.setattr(connections, "_STALL_S", 0.05)
    cut = asyncio.Event()
    monkeypatch.setattr(TimedConnection, "connection_lost", lambda *_: cut.set())
    async with served() as port:
        with socket.create_connection(("127.0.0.1", port)) as never_read:
            never_read.sendall(ASKS.replace(b"/ ", b"/long ", 1))
            await cut.wait()


@pytest.mark.parametrize("most", [4])
async def test_a_crowd_that_asks_nothing_makes_room(most, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", most)
    async with served() as port:
        crowd = [await dialled(port, b"GET /") for _ in range(3 * most)]
        assert await answer(port) == b"HTTP/1.1 200 OK"
        for reader, _ in crowd[:most]:  # the oldest had to go
            assert await has_ended(reader)
        for _, writer in crowd:
            writer.close()
