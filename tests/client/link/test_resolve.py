"""A name's hosts, and a resolver that says nothing."""

import asyncio
import socket
import subprocess
import sys

import pytest

from client.link import resolve
from client.link.resolve import keep_up_to_date, look_up
from common.address import Address

NAME = Address("gpu.example.org", 7070)


def answers(monkeypatch, *hosts: str) -> None:
    """Those of a name from now on; nothing is known of it without any."""

    def getaddrinfo(name: str, port: int, **how: int):
        if not hosts:
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        families = [socket.AF_INET6 if ":" in host else socket.AF_INET for host in hosts]
        return [(family, socket.SOCK_STREAM, 6, "", (host, port)) for family, host in zip(families, hosts, strict=True)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


async def test_hosts_of_both_families_come_by_turns(monkeypatch):
    answers(monkeypatch, "::1", "::2", "::3", "127.0.0.1")
    assert await look_up(NAME) == ["::1", "127.0.0.1", "::2", "::3"]


async def test_whatever_a_resolver_raises_is_raised(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [].pop())
    with pytest.raises(IndexError):
        await asyncio.wait_for(look_up(NAME), 10)


async def test_a_name_without_hosts_is_an_error(monkeypatch):
    answers(monkeypatch)
    with pytest.raises(OSError, match="no answer"):
        await look_up(NAME)


async def test_hosts_are_replaced_when_the_name_has_others_and_kept_while_it_has_none(monkeypatch):
    monkeypatch.setattr(resolve, "_REFRESH_INTERVAL_S", 0.01)
    answers(monkeypatch, "127.0.0.1")
    hosts = ["192.0.2.1"]
    keeping = asyncio.create_task(keep_up_to_date(hosts, NAME))
    async with asyncio.timeout(10):
        while hosts != ["127.0.0.1"]:
            await asyncio.sleep(0.01)
    answers(monkeypatch)
    await asyncio.sleep(0.1)
    assert hosts == ["127.0.0.1"]
    assert not keeping.done()
    keeping.cancel()


LEAVING = """
import asyncio, socket, time
from client.link.resolve import look_up
from common.address import Address

socket.getaddrinfo = lambda *_, **__: time.sleep(60)

async def main():
    try:
        await asyncio.wait_for(look_up(Address("gpu.example.org", 7070)), 0.1)
    except TimeoutError:
        print("given up")

asyncio.run(main())
"""


def test_no_program_waits_at_its_end_for_a_resolver_that_says_nothing():
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("given up\n", "")
