"""Which HTTP proxy gRPC takes to an address: what the environment says, read as gRPC's own core reads it.

Pure but for reading the environment. It may not connect to anything.
"""

import ipaddress
import os
import re
from urllib.parse import urlsplit

from common.address import Address

_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_EXCEPTIONS = ("no_grpc_proxy", "no_proxy")
PROXY_VARIABLES = (*_PROXIES, *_EXCEPTIONS)
_DEFAULT_PORT = 443
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def proxy_to(address: Address) -> Address | None:
    """The proxy by which gRPC reaches a server, None where it dials the server itself. What is on this machine is
    dialled itself (`connect`)."""
    named = next((os.environ[name] for name in _PROXIES if name in os.environ), "")  # an empty one means none
    exceptions = next((os.environ[name] for name in _EXCEPTIONS if name in os.environ), "")
    try:
        parts = urlsplit(named)
        proxy = Address(parts.hostname or "", parts.port or _DEFAULT_PORT)
    except ValueError:  # gRPC takes no proxy that it cannot read
        return None
    if parts.scheme != "http" or not proxy.host or address.is_loopback:
        return None
    return None if any(_covers(each.strip(), address.host) for each in exceptions.split(",")) else proxy


def has_password(proxy: str) -> bool:
    """Whether a proxy's URL holds a password, also where nothing else of it can be read."""
    return ":" in _SCHEME.sub("", proxy.rpartition("@")[0])


def _covers(exception: str, host: str) -> bool:
    """Whether a host is among those that an entry of `no_proxy` means: all whose name ends so, or a range of
    addresses."""
    if not exception:
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(exception, strict=False)
    except ValueError:
        return host.lower().endswith(exception.lower())
