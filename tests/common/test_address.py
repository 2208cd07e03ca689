"""common.address: what people write, and what they must not."""

import pytest

from common.address import Address, parse_address, parse_destination
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


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.9", True), ("localhost", True), ("::1", True), ("10.0.0.1", False), ("example.org", False)],
)
def test_what_is_loopback(host: str, expected: bool) -> None:
    assert Address(host, 1).is_loopback is expected
