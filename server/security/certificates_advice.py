"""The next steps after certificates were made, as commands to type. Pure."""

import ipaddress
from collections.abc import Sequence
from shlex import join

from common.address import Address
from server.security.certificates import Issued, KeyPair

_PORT = 7070


def advice(issued: Issued, hosts: Sequence[str]) -> str:
    """Lines for a terminal; without `hosts` the server has its certificate already."""
    server = str(Address(hosts[0], _PORT)) if hosts else f"HOST:{_PORT}"
    own_key = issued.authority.with_suffix(".key")
    lines = [f"Keep {own_key} to yourself: whoever has it can make more of these. No server and no client needs it."]
    if issued.server is not None:
        lines += ["", "On the server:", f"  {join(_serve(issued, issued.server, hosts))}"]
    if not issued.clients:
        command = join(_run(issued, server, None))
        lines += ["", f"On each laptop, with a copy of {issued.authority.name}:", f"  {command}"]
    for pair in issued.clients:
        files = f"{issued.authority.name}, {pair.certificate.name} and {pair.key.name}"
        lines += ["", f"On {pair.key.stem}'s laptop, with {files}:", f"  {join(_run(issued, server, pair))}"]
    return "\n".join(lines)


def _serve(issued: Issued, pair: KeyPair, hosts: Sequence[str]) -> list[str]:
    here = all(Address(host, _PORT).is_loopback for host in hosts)
    listen = Address(hosts[0] if here else "::" if all(map(_is_ipv6, hosts)) else "0.0.0.0", _PORT)
    tls = ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)]
    mutual = ["--client-ca", str(issued.authority)] if issued.clients else []
    return ["outriderd", "serve", "--target", "demo", "--listen", str(listen), *tls, *mutual]


def _run(issued: Issued, server: str, pair: KeyPair | None) -> list[str]:
    own = [] if pair is None else ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)]
    return ["outrider", "run", "Write a haiku", "--server", server, "--tls-ca", str(issued.authority), *own]


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False
