"""Where a link begins or ends: a host and a TCP port, read and written as HOST:PORT. Opens no socket."""

from typing import NamedTuple

from netem.links.errors import LinkMisuseError

_HIGHEST_PORT = 65535


class Address(NamedTuple):
    """A host name or IP address, without brackets, and a TCP port; port 0 asks the system for a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read HOST:PORT or [IPV6]:PORT. Raises LinkMisuseError for anything else."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare_host = host[1:-1] if bracketed else host
    port_is_valid = port.isascii() and port.isdigit() and int(port) <= _HIGHEST_PORT
    if not bare_host or not port_is_valid or (":" in bare_host and not bracketed):
        raise LinkMisuseError(f"'{text}' is not an address: write HOST:PORT, for example 127.0.0.1:50051")
    return Address(bare_host, int(port))
