"""common.address: how addresses may be written, and how not."""

import socket

import pytest

from common.address import Address, parse_address, parse_destination, parse_destinations, written
from common.protocol.errors import MisuseError


@pytest.mark.parametrize("text", ["127.0.0.1:50051", "server.example:0", "[::1]:65535"])
def test_an_address_is_read_and_written_alike(text: str) -> None:
    assert str(parse_address(text)) == text


def test_brackets_are_no_part_of_the_host() -> None:
    assert parse_address("[::1]:7") == Address("::1", 7)


@pytest.mark.parametrize("text", ["", "host", ":80", "host:", "host:x", "host:-1", "host:65536", "::1:80", "[]:80"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(MisuseError, match="write HOST:PORT"):
        parse_address(text)


def test_a_destination_needs_a_port() -> None:
    assert parse_destination("host:1") == Address("host", 1)
    with pytest.raises(MisuseError, match="names no port"):
        parse_destination("host:0")


def test_several_destinations_stand_between_commas_each_once() -> None:
    several = parse_destinations("a:1, [::1]:2,a:1")
    assert several == (Address("a", 1), Address("::1", 2))
    assert parse_destinations(written(several)) == several
    for text in ("a:1,", ",", "a:1;b:2", "a:1,b:0"):
        with pytest.raises(MisuseError, match=r"HOST:PORT|names no port"):
            parse_destinations(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost", "::1", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1"])
def test_what_is_loopback(host: str) -> None:
    assert Address(host, 1).is_loopback


NUMBERS = "0.0.0.0 :: ::ffff:0.0.0.0 ::ffff:10.0.0.1 10.0.0.1 128.0.0.1 fe80::1 ::127.0.0.1"
NAMES = "example.org localhost.example.org 127.0.0.1.example.org 127.1 0177.0.0.1 2130706433 LOCALHOST"


@pytest.mark.parametrize("host", [*NUMBERS.split(), *NAMES.split()])
def test_what_is_not(host: str) -> None:
    """Names are not resolved: a name server may answer differently the next time."""
    assert not Address(host, 1).is_loopback


def test_a_localhost_that_resolves_elsewhere_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*addresses: str) -> None:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    resolve("127.0.0.1", "10.0.0.1")
    assert not Address("localhost", 1).is_loopback
    resolve("127.0.0.1", "::1")
    assert Address("localhost", 1).is_loopback

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert not Address("localhost", 1).is_loopback


@pytest.mark.parametrize(
    ("listens", "dialled"),
    [("0.0.0.0:7", "127.0.0.1:7"), ("[::]:7", "[::1]:7"), ("10.0.0.1:7", "10.0.0.1:7"), ("gpu:7", "gpu:7")],
)
def test_what_listens_everywhere_is_dialled_on_loopback(listens: str, dialled: str) -> None:
    assert str(parse_address(listens).dial_address) == dialled
