"""The listening port and its TLS. What a single call needs is checked in `call_gate.py`."""

import errno
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc

from common.address import Address
from common.protocol.errors import MisuseError
from common.rpc.credentials import ServerTls, server_credentials
from server.options import AccessOptions

_ATTEMPTS = 16
"""For a port that is free at every address of the host."""


def port_credentials(access: AccessOptions) -> grpc.ServerCredentials | None:
    """What secures the port, None for plain text. Raises MisuseError where that is unsafe or a file is broken."""
    if access.certificate and access.key:
        return server_credentials(ServerTls(access.certificate, access.key, access.client_ca))
    if access.certificate or access.key or access.client_ca:
        raise MisuseError("TLS needs both --tls-cert and --tls-key")
    if not access.listen.is_loopback and not access.insecure:
        raise MisuseError(
            f"{access.listen} is open to other machines, where plain text can be read; give --tls-cert and --tls-key, "
            "or --insecure if the network is trusted"
        )
    return None


def open_port(server: grpc.aio.Server, listen: Address, credentials: grpc.ServerCredentials | None) -> Address:
    """Binds the port at every address of the host and returns it; port 0 stands for any that is free at all of them.
    Raises MisuseError where it is taken."""
    try:
        # gRPC is content with one address whose port is free; another program's server would answer at the rest.
        with _held(listen) as where:
            if credentials is None:
                server.add_insecure_port(str(where))
            else:
                server.add_secure_port(str(where), credentials)
    except (OSError, RuntimeError) as error:
        raise MisuseError(f"{listen} is in use or not this machine's; name another with --listen") from error
    return where


@contextmanager
def _held(listen: Address) -> Iterator[Address]:
    """Keeps the port from everyone but gRPC, which may bind what is bound and not listened at; elsewhere than on Linux
    it may not, and the port is only known to have been free. Raises OSError where it is in use at any address of the
    host."""
    for attempt in range(_ATTEMPTS):
        with ExitStack() as sockets:
            try:
                where = _bound(listen, sockets)
            except OSError:
                if listen.port or attempt == _ATTEMPTS - 1:
                    raise
                continue
            if sys.platform != "linux":
                sockets.close()
            yield where
            return


def _bound(listen: Address, sockets: ExitStack) -> Address:
    where = listen
    for family, (host, _, *scope) in _addresses(listen.host):
        try:
            held = sockets.enter_context(socket.socket(family, socket.SOCK_STREAM))
            # As gRPC binds: connections that an earlier server left behind do not hold a port.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            held.bind((host, where.port, *scope))
        except OSError as error:
            # Anything else, such as a machine without IPv6, is for gRPC to judge.
            if error.errno == errno.EADDRINUSE:
                raise
            continue
        where = Address(listen.host, held.getsockname()[1])
    return where


def _addresses(host: str) -> list[tuple[int, tuple[Any, ...]]]:
    """Those that gRPC binds, with their families: for `localhost` both, whatever the machine's own file says."""
    if host == "localhost":
        return [(socket.AF_INET6, ("::1", 0)), (socket.AF_INET, ("127.0.0.1", 0))]
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [(family, address) for family, *_, address in found]
