"""Whether anything answers at an address: at once where it refuses, and soon after it begins to answer."""

import asyncio
import gc
import os
import socket
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

from client.reach import reach
from common.address import Address
from common.rpc.errors import LinkError

LOOPBACK = "127.0.0.1"


@contextmanager
def deaf_listener():
    """A port whose queue of connections is full, so that what asks for one more is not answered."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind((LOOPBACK, 0))
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


async def test_a_server_that_listens_is_reached():
    connected = asyncio.Event()
    server = await asyncio.start_server(lambda reader, writer: (connected.set(), writer.close()), LOOPBACK, 0)
    async with server:
        await asyncio.wait_for(reach(Address(*server.sockets[0].getsockname())), 5)
        await asyncio.wait_for(connected.wait(), 5)


async def test_a_name_is_looked_up_once_however_often_it_is_tried(monkeypatch):
    loop = asyncio.get_running_loop()
    look_up, asked = loop.getaddrinfo, []

    def counting(host, *how, **more):
        asked.append(host)
        return look_up(host, *how, **more)

    with deaf_listener() as (_, address):
        monkeypatch.setattr(loop, "getaddrinfo", counting)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reach(Address("localhost", address.port)), 0.9)
    assert asked.count("localhost") == 1


async def test_a_refusal_is_told_at_once():
    began = time.perf_counter()
    port = free_port()
    with pytest.raises(LinkError, match=f"127.0.0.1:{port} cannot be reached"):
        await reach(Address(LOOPBACK, port))
    assert time.perf_counter() - began < 0.2


async def test_an_unknown_name_is_a_broken_link():
    with pytest.raises(LinkError):
        await asyncio.wait_for(reach(Address("no.such.name.invalid", 7070)), 30)


async def test_a_server_that_begins_to_answer_is_reached_before_the_kernel_asks_again():
    with deaf_listener() as (listener, address):
        loop = asyncio.get_running_loop()
        began = loop.time()

        def answer() -> None:
            for _ in range(2):
                listener.accept()[0].close()

        # The kernel repeats itself after 1 s and again 2 s later.
        loop.call_later(1.2, answer)
        await asyncio.wait_for(reach(address), 5)
        assert 1.2 <= loop.time() - began < 2.5


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files as Linux shows them")
async def test_who_is_cancelled_leaves_no_task_and_no_socket():
    before, sockets = asyncio.all_tasks(), open_sockets()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with deaf_listener() as (_, address):
            held = open_sockets()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reach(address), 0.7)
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == before
            assert open_sockets() <= held
    assert open_sockets() <= sockets, "none is left; those of tests before may go meanwhile"
