"""Whether anything answers at an address: known at once on a refusal, and soon after something begins to answer."""

import asyncio
import gc
import os
import socket
import time
import warnings
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import grpc
import pytest

from client.link.dial import dial
from client.link.stream import Access
from common.address import Address
from common.rpc.channel import CLIENT_OPTIONS, CONNECTING_MS
from common.rpc.errors import LinkError
from common.rpc.stub import Connection

LOOPBACK = "127.0.0.1"


@contextmanager
def deaf_listener(host: str = LOOPBACK, port: int = 0):
    """A port whose queue of connections is full, so that what asks for one more is not answered."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind((host, port))
        listener.listen(0)
        address = Address(*listener.getsockname())
        for filling in (first, second):
            filling.setblocking(False)
            filling.connect_ex(listener.getsockname())
        time.sleep(0.05)
        yield listener, address


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


def open_sockets() -> int:
    gc.collect()
    return sum(os.readlink(file).startswith("socket:") for file in Path("/proc/self/fd").iterdir() if file.is_symlink())


@asynccontextmanager
async def listening():
    """The address of a server that speaks gRPC and has no methods."""
    server = grpc.aio.server()
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    try:
        yield Address(LOOPBACK, port)
    finally:
        await server.stop(0)


@pytest.fixture
def impatient(monkeypatch) -> None:
    """gRPC soon ends a connection that was given up while it was being made."""
    monkeypatch.setattr("common.rpc.stub.CLIENT_OPTIONS", (*CLIENT_OPTIONS, (CONNECTING_MS, 500)))


async def only_left(sockets: int) -> None:
    """Looks seldom, for each look collects garbage."""
    async with asyncio.timeout(10):
        while open_sockets() > sockets:
            await asyncio.sleep(0.1)


async def reached(address: Address, seconds: float = 5.0) -> Connection:
    return await asyncio.wait_for(dial(Access(address)), seconds)


async def test_a_connection_to_a_server_that_listens_stands():
    async with listening() as address, await reached(address) as connection:
        assert await asyncio.wait_for(connection.stands(), 0.1)


async def test_one_connection_is_left_of_all_that_were_tried(impatient):
    async with listening() as address:
        sockets = open_sockets()
        async with await reached(address):
            await only_left(sockets + 2)  # of this end and of the server's
        await only_left(sockets)


async def test_who_answers_and_speaks_no_protocol_of_ours_is_told_by_the_first_call():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), LOOPBACK, 0)
    async with server, await reached(Address(*server.sockets[0].getsockname())) as connection:
        assert not await asyncio.wait_for(connection.stands(), 5)
        with pytest.raises(LinkError):
            await connection.describe(5.0)


async def test_a_name_is_looked_up_once_however_often_it_is_tried(monkeypatch):
    asked = []

    def getaddrinfo(host, port, **how):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (LOOPBACK, port))]

    with deaf_listener() as (_, address):
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        with pytest.raises(TimeoutError):
            await reached(Address("gpu.behind.invalid", address.port), 0.9)
    assert asked.count("gpu.behind.invalid") == 1


@asynccontextmanager
async def far_away(to: Address, seconds: float):
    """The address of a way to a server whose answers come that much later."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
        with suppress(ConnectionError):
            await asyncio.sleep(seconds)
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, before = await asyncio.open_connection(to.host, to.port)
        await asyncio.gather(copy(reader, before, 0.0), copy(behind, writer, seconds))

    server = await asyncio.start_server(connect, LOOPBACK, 0)
    async with server:
        yield Address(LOOPBACK, server.sockets[0].getsockname()[1])


async def test_an_address_that_swallows_all_does_not_hold_up_the_next_one(monkeypatch):
    """Where IPv6 leads nowhere. The probe alone waits longer than four attempts, for this handshake."""
    elsewhere = "127.0.0.2"
    async with listening() as server, far_away(server, 1.5) as address:
        with deaf_listener(elsewhere, address.port):

            async def look_up(_: Address) -> list[str]:
                return [elsewhere, LOOPBACK]

            monkeypatch.setattr("client.link.dial.look_up", look_up)
            async with await reached(address, 10) as connection:
                assert await connection.stands()


async def test_the_last_of_many_addresses_is_tried(monkeypatch):
    async def look_up(_: Address) -> list[str]:
        return [*(f"127.0.0.{number}" for number in range(2, 9)), LOOPBACK]

    monkeypatch.setattr("client.link.dial.look_up", look_up)
    async with listening() as address, await reached(address, 10) as connection:
        assert await connection.stands()


async def test_a_server_is_out_of_reach_where_all_its_addresses_refuse(monkeypatch):
    async def look_up(_: Address) -> list[str]:
        return ["127.0.0.2", LOOPBACK]

    monkeypatch.setattr("client.link.dial.look_up", look_up)
    with pytest.raises(LinkError, match="cannot be reached"):
        await reached(Address(LOOPBACK, free_port()))


async def test_a_refusal_is_told_at_once(monkeypatch):
    """Without a wait for another probe, or for the end of the time that there is."""
    an_hour_s, port = 3600.0, free_port()
    monkeypatch.setattr("client.link.dial._RETRY_INTERVAL_S", an_hour_s)
    async with asyncio.timeout(10):
        with pytest.raises(LinkError, match=f"127.0.0.1:{port} cannot be reached"):
            await reached(Address(LOOPBACK, port), an_hour_s)


async def test_an_unknown_name_is_a_broken_link():
    with pytest.raises(LinkError):
        await reached(Address("no.such.name.invalid", 7070), 30)


@asynccontextmanager
async def proxying(to: Address):
    """The address of an HTTP proxy, which connects to a server whatever name it is asked for."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        assert asked.startswith(b"CONNECT gpu.behind.invalid:7070 ")
        behind, before = await asyncio.open_connection(to.host, to.port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(copy(reader, before), copy(behind, writer))

    server = await asyncio.start_server(connect, LOOPBACK, 0)
    async with server:
        yield Address(LOOPBACK, server.sockets[0].getsockname()[1])


async def test_a_server_behind_a_proxy_is_reached_again_by_a_name_that_the_proxy_alone_knows(monkeypatch):
    async with listening() as address, proxying(address) as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy}")
        monkeypatch.delenv("no_proxy", raising=False)
        async with await reached(Address("gpu.behind.invalid", 7070)) as connection:
            assert await asyncio.wait_for(connection.stands(), 0.1)


async def test_a_proxy_that_refuses_is_named(monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://{LOOPBACK}:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(LinkError, match="the HTTP proxy"):
        await reached(Address("gpu.behind.invalid", 7070))


async def test_a_server_that_begins_to_answer_is_reached_before_the_kernel_asks_again():
    with deaf_listener() as (listener, address):
        loop = asyncio.get_running_loop()
        began = loop.time()

        def answer() -> None:
            loop.add_reader(listener, lambda: listener.accept()[0].close())

        # The kernel retries after 1 s and again 2 s later.
        loop.call_later(1.2, answer)
        async with await reached(address):
            assert 1.2 <= loop.time() - began < 2.5
        loop.remove_reader(listener)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files as Linux shows them")
async def test_who_is_cancelled_leaves_no_task_and_no_socket(impatient):
    before, sockets = asyncio.all_tasks(), open_sockets()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with deaf_listener() as (_, address):
            held = open_sockets()
            with pytest.raises(TimeoutError):
                await reached(address, 0.7)
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == before
            assert open_sockets() <= held + 3, "those of connections alone, of which gRPC makes an end"
            await only_left(held)
    assert open_sockets() <= sockets
