"""Network addresses as a person writes them: HOST:PORT, an IPv6 host in brackets. It opens no connection."""

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from common.protocol.errors import MisuseError

_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A host name or IP address, without brackets, and a TCP port; port 0 asks the system for a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def dial_address(self) -> "Address":
        """The address at which this machine reaches a server that listens here: loopback where it listens on every
        address."""
        everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
        return Address(everywhere.get(self.host, self.host), self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether traffic to this address stays on this machine. Of names only `localhost` counts, and only if this
        machine resolves it to loopback addresses alone."""
        if self.host == "localhost":
            return _resolves_to_loopback(self.host)
        return _is_loopback(self.host)


def _is_loopback(host: str) -> bool:
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback


def _resolves_to_loopback(name: str) -> bool:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(_is_loopback(str(address[0])) for *_, address in found)


def parse_address(text: str) -> Address:
    """Reads HOST:PORT or [IPV6]:PORT. Raises MisuseError for anything else."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare_host = host[1:-1] if bracketed else host
    port_is_valid = port.isascii() and port.isdigit() and int(port) <= _HIGHEST_PORT
    if not bare_host or not port_is_valid or (":" in bare_host and not bracketed):
        raise MisuseError(f"'{text}' is not an address; write HOST:PORT, such as 127.0.0.1:7070")
    return Address(bare_host, int(port))


def parse_destination(text: str) -> Address:
    """As `parse_address`, for somewhere to connect to: port 0 is refused."""
    address = parse_address(text)
    if address.port == 0:
        raise MisuseError(f"'{text}' names no port to connect to; port 0 only makes sense for listening")
    return address


def parse_destinations(text: str) -> tuple[Address, ...]:
    """Reads several destinations between commas, the same one once. Raises MisuseError for anything else."""
    return tuple(dict.fromkeys(parse_destination(each.strip()) for each in text.split(",")))


def written(addresses: Iterable[Address]) -> str:
    """As `parse_destinations` reads them."""
    return ",".join(map(str, addresses))
