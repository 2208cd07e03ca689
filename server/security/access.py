"""The listening port and its TLS. What a single call needs is checked in `call_gate.py`."""

import errno
import socket

import grpc

from common.address import Address
from common.protocol.errors import MisuseError
from common.rpc.credentials import ServerTls, server_credentials
from server.options import AccessOptions


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
    """Binds the port and returns it. Raises MisuseError where it is taken."""
    try:
        _refuse_half_a_port(listen)
        if credentials is None:
            port = server.add_insecure_port(str(listen))
        else:
            port = server.add_secure_port(str(listen), credentials)
    except (OSError, RuntimeError) as error:
        raise MisuseError(f"{listen} is in use or not this machine's; name another with --listen") from error
    return Address(listen.host, port)


def _refuse_half_a_port(listen: Address) -> None:
    """Raises OSError where any address of the host has the port in use; gRPC is content with one that is free."""
    for family, kind, protocol, _, address in socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM):
        try:
            with socket.socket(family, kind, protocol) as probe:
                # As gRPC binds: connections that an earlier server left behind do not hold a port.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
        except OSError as error:
            # Anything else, such as a machine without IPv6, is for gRPC to judge.
            if error.errno == errno.EADDRINUSE:
                raise
