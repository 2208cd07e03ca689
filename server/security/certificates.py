"""Certificates of a private set-up: its own authority, and what it signs for a server and its clients.

May know X.509 and files. It may not know TLS connections, gRPC or commands; the time is an argument.
"""

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from common.protocol.errors import MisuseError

AUTHORITY_DAYS = 3650
"""No certificate that it signs may last longer."""

_CLOCKS_APART = timedelta(days=1)
"""So much earlier than now a certificate begins, for machines whose clock is behind."""

_AUTHORITY, _SERVER = "ca", "server"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}$)(?:{_LABEL}\.)*(?!\d+$){_LABEL}", re.IGNORECASE)
_CLIENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Where a certificate and its key lie, PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Issued:
    """What was made; `authority` is where the certificate lies that others are to trust."""

    authority: Path
    server: KeyPair | None
    clients: tuple[KeyPair, ...]


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def issue(out: Path, hosts: Sequence[str], clients: Sequence[str], days: int, now: datetime) -> Issued:
    """Makes certificates in `out` that are valid for so many days: one for a server of all these `hosts`, names or IP
    addresses, and one for each client's name. The authority is made where `out` has none yet.

    Raises MisuseError for names that cannot be, and where a file would be overwritten or cannot be written.
    """
    names = [_general_name(host) for host in hosts]
    for client in clients:
        _check_client(client, clients)
    signed = [*([_SERVER] if hosts else []), *clients]
    if not signed:
        raise MisuseError("there is nothing to certify; name the server's --host or a --client")
    pairs = {name: _pair(out, name) for name in signed}
    for path in (path for pair in pairs.values() for path in (pair.certificate, pair.key)):
        if path.exists():
            more = "leave --host out to add a client" if path.stem == _SERVER else "choose another name"
            raise MisuseError(f"{path} exists and is never overwritten; delete it, name another --out, or {more}")
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = _authority(out, now)
        end = (now + timedelta(days=days)).replace(microsecond=0)  # a certificate has whole seconds
        if end > authority.certificate.not_valid_after_utc:
            last = authority.certificate.not_valid_after_utc.date()
            raise MisuseError(f"the authority in {out} ends on {last}; ask for fewer --days or name another --out")
        for name, pair in pairs.items():
            _make_leaf(name, pair, names if name == _SERVER else None, authority, (now - _CLOCKS_APART, end))
    except OSError as error:
        raise MisuseError(f"certificates cannot be written to {out}: {error.strerror}; name another --out") from error
    return Issued(_pair(out, _AUTHORITY).certificate, pairs.get(_SERVER), tuple(pairs[name] for name in clients))


def _general_name(host: str) -> x509.GeneralName:
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        if not _HOST_NAME.fullmatch(host):
            raise MisuseError(
                f"'{host}' is neither a host's name nor an IP address; write it as clients do in --server, without the "
                "port"
            ) from None
        return x509.DNSName(host.lower())
    if ip.is_unspecified or "%" in host:
        raise MisuseError(f"no client can name a server '{host}'; give the name or address that they dial")
    return x509.IPAddress(ip)


def _check_client(name: str, clients: Sequence[str]) -> None:
    taken = name in (_AUTHORITY, _SERVER) or clients.count(name) > 1
    if taken or not _CLIENT_NAME.fullmatch(name):
        raise MisuseError(
            f"'{name}' cannot name a client, whose files are called so; use letters, digits, dots and hyphens, each "
            f"name once, and neither {_AUTHORITY} nor {_SERVER}"
        )


def _pair(out: Path, name: str) -> KeyPair:
    return KeyPair(out / f"{name}.pem", out / f"{name}.key")


def _authority(out: Path, now: datetime) -> _Authority:
    """The authority in `out`, made anew where there is none."""
    pair = _pair(out, _AUTHORITY)
    if not pair.certificate.exists() and not pair.key.exists():
        return _make_authority(pair, now)
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        key = serialization.load_pem_private_key(pair.key.read_bytes(), password=None)
    except FileNotFoundError as error:
        raise MisuseError(f"{error.filename} is not there; put it back, or name another --out") from error
    except (ValueError, TypeError) as error:
        raise MisuseError(f"the authority in {out} cannot be read; name another --out") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise MisuseError(f"{pair.key} is not the key of {pair.certificate}; name another --out")
    return _Authority(certificate, key)


def _make_authority(pair: KeyPair, now: datetime) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    # A unique name, because two authorities with one name cannot be told apart.
    name = _name(f"Outrider authority {os.urandom(4).hex()}")
    validity = (now - _CLOCKS_APART, now + timedelta(days=AUTHORITY_DAYS))
    builder = (
        _builder(name, name, key, validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    certificate = builder.sign(key, hashes.SHA256())
    _write(pair, certificate, key)
    return _Authority(certificate, key)


def _make_leaf(
    name: str,
    pair: KeyPair,
    hosts: Sequence[x509.GeneralName] | None,
    authority: _Authority,
    validity: tuple[datetime, datetime],
) -> None:
    """A server's certificate where there are `hosts`, else a client's: neither can stand in for the other."""
    key = ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH if hosts is None else ExtendedKeyUsageOID.SERVER_AUTH
    issuer = x509.SubjectKeyIdentifier.from_public_key(authority.key.public_key())
    builder = (
        _builder(_name(name), authority.certificate.subject, key, validity)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
    )
    if hosts is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    _write(pair, builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, validity: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    begin, end = validity
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(pair: KeyPair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write_new(pair.key, private, 0o600)
    _write_new(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _write_new(path: Path, data: bytes, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
