"""The network path to a server, step by step, to name the first fault: name, port, TLS.

May know sockets and TLS, and nothing of the messages on a connection. Blocking: to be called in a thread.
"""

import socket
import ssl
from collections.abc import Callable
from datetime import datetime

from client.doctor.tls_faults import distrusted, refused
from common.address import Address
from common.certificate import Certificate, read_der
from common.programs.findings import Finding
from common.protocol.errors import MisuseError
from common.rpc.credentials import ClientTls, client_credentials
from common.rpc.proxy import proxy_to

_TIMEOUT_S = 5.0

_FRAME_HEADER_BYTES = 9
_SETTINGS = 4
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0))
"""The beginning of HTTP/2, which a server answers by its settings."""

_TLS = "tls"


def check_network(address: Address, tls: ClientTls | None, now: datetime) -> list[Finding]:
    """One finding for each step, up to the first that fails; `now` is in UTC. Of a server behind an HTTP proxy only the
    way to the proxy can be checked."""
    proxy = proxy_to(address)
    if proxy is not None:
        by_proxy = Finding("proxy", f"connections take the HTTP proxy {proxy}, which the environment names")
        return [by_proxy, *_up_to_the_first_fault(lambda: check_name(proxy), lambda: check_port(proxy))]
    secured: Callable[[], Finding] = (lambda: check_tls(address, tls, now)) if tls else (lambda: check_plain(address))
    return _up_to_the_first_fault(lambda: check_name(address), lambda: check_port(address), secured)


def _up_to_the_first_fault(*steps: Callable[[], Finding]) -> list[Finding]:
    findings = []
    for step in steps:
        findings.append(step())
        if findings[-1].fix and not findings[-1].is_minor:
            break
    return findings


def check_name(address: Address) -> Finding:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except UnicodeError:
        return Finding("name", f"{address.host} is no name of a host", "check its spelling")
    except OSError as error:
        return Finding(
            "name", f"{address.host} is unknown here ({error.strerror})", "check its spelling and this machine's DNS"
        )
    return Finding("name", f"{address.host} is {', '.join(dict.fromkeys(str(each[4][0]) for each in found))}")


def check_port(address: Address) -> Finding:
    try:
        with _connected(address):
            return Finding("port", f"{address} accepts connections")
    except ConnectionRefusedError:
        return Finding(
            "port",
            f"{address} refuses connections",
            "check the port, and that outriderd runs there and listens on more than its own machine",
        )
    except TimeoutError:
        return Finding(
            "port", f"{address} does not answer within {_TIMEOUT_S:.0f} s", "look for a firewall, or a VPN that is off"
        )
    except OSError as error:
        return Finding("port", f"{address} cannot be reached ({error.strerror})", "check your link and the address")


def check_plain(address: Address) -> Finding:
    """Whether plain text is what the server speaks."""
    reply = _greeted(address)
    if _is_settings(reply):
        return Finding(_TLS, "off: client and server use plain text")
    if _presented(address) is not None:
        return Finding(
            _TLS, "off, but the server speaks TLS", "give --tls-ca with its authority's certificate, or --tls"
        )
    return _silent(address) if reply is None else _foreign(address)


def check_tls(address: Address, tls: ClientTls, now: datetime) -> Finding:
    """Whether both sides accept each other's certificates; `now` is in UTC."""
    try:
        client_credentials(tls)
    except MisuseError as error:
        return Finding(_TLS, "the files cannot be used", str(error))
    presented = _presented(address)
    if presented is None:
        reply = _greeted(address)
        if _is_settings(reply):
            return Finding(
                _TLS,
                "the server speaks plain text",
                "leave the TLS options out, or have its operator give --tls-cert and --tls-key",
            )
        return _silent(address) if reply is None else _foreign(address)
    try:
        with _connected(address) as plain, _context(tls).wrap_socket(plain, server_hostname=address.host) as secured:
            reply = _greet(secured)
    except ssl.SSLCertVerificationError as error:
        return distrusted(error.verify_code, error.verify_message, presented, address.host, tls, now)
    except TimeoutError:
        return _silent(address)
    except (ssl.SSLError, OSError) as error:
        return refused(error, tls)
    if not _is_settings(reply):
        return refused(None, tls) if not reply else _foreign(address)
    detail = f"{address.host} has a certificate of {presented.issuer}, valid until {presented.end:%Y-%m-%d}"
    if presented.ends_soon(now):
        return Finding(_TLS, detail, "have its operator renew it", is_minor=True)
    return Finding(_TLS, detail)


def _foreign(address: Address) -> Finding:
    return Finding(_TLS, f"what answers at {address} is not an Outrider server", "check the address and the port")


def _silent(address: Address) -> Finding:
    """A server opens its port before it loads its targets, and answers after it."""
    return Finding(
        "server",
        f"a server listens at {address}, but is not ready: it says nothing for {_TIMEOUT_S:.0f} s, as while it loads "
        "its model",
        "try again later; if it never gets ready, check the address and the port, and ask its operator",
    )


def _connected(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=_TIMEOUT_S)


def _greeted(address: Address) -> bytes | None:
    """The first bytes of a plain connection's answer; empty if it ends without any, None if nothing comes in time."""
    try:
        with _connected(address) as plain:
            return _greet(plain)
    except TimeoutError:
        return None
    except OSError:
        return b""


def _greet(connection: socket.socket) -> bytes:
    connection.sendall(_HTTP2_PREFACE)
    reply = b""
    while len(reply) < _FRAME_HEADER_BYTES and (more := connection.recv(_FRAME_HEADER_BYTES - len(reply))):
        reply += more
    return reply


def _is_settings(reply: bytes | None) -> bool:
    return reply is not None and len(reply) == _FRAME_HEADER_BYTES and reply[3] == _SETTINGS


def _presented(address: Address) -> Certificate | None:
    """The certificate that the server shows to anyone; None if it speaks no TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with _connected(address) as plain, context.wrap_socket(plain, server_hostname=address.host) as secured:
            shown = secured.getpeercert(binary_form=True)
            return read_der(shown) if shown else None
    except (ssl.SSLError, OSError, ValueError):
        return None


def _context(tls: ClientTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    if tls.ca:
        context.load_verify_locations(tls.ca)
    else:
        context.load_default_certs()
    if tls.certificate and tls.key:
        context.load_cert_chain(tls.certificate, tls.key)
    return context
