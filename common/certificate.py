"""Reads X.509 certificates: subject, issuer, host names, validity. It may not know connections."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.x509.oid import NameOID

_SOON = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Certificate:
    """`names` are those of hosts, DNS names and IP addresses; times are in UTC."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    begin: datetime
    end: datetime

    def ends_soon(self, now: datetime) -> bool:
        return now > self.end - _SOON


def read_der(data: bytes) -> Certificate:
    """Raises ValueError where `data` is no DER certificate."""
    return _read(x509.load_der_x509_certificate(data))


def read_pem(data: bytes) -> Certificate:
    """The first certificate of a PEM file. Raises ValueError where it holds none."""
    return _read(x509.load_pem_x509_certificate(data))


def _read(certificate: x509.Certificate) -> Certificate:
    return Certificate(
        _called(certificate.subject),
        _called(certificate.issuer),
        _hosts(certificate),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    names = found.get_values_for_type(x509.DNSName)
    return (*names, *map(str, found.get_values_for_type(x509.IPAddress)))


def _called(name: x509.Name) -> str:
    common = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(common[0].value) if common else name.rfc4514_string()
