"""Why client and server do not trust each other's certificates, and how to fix it. Pure, but for reading
certificates."""

import ssl
from datetime import datetime
from pathlib import Path

from common.certificate import Certificate, read_pem
from common.programs.findings import Finding
from common.rpc.credentials import ClientTls

_TLS = "tls"

# OpenSSL's numbers of what is wrong with a certificate.
_NOT_YET_VALID = 9
_EXPIRED = 10
_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})
_WRONG_PURPOSE = 26
_OTHER_NAME = frozenset({62, 64})


def distrusted(code: int, said: str, presented: Certificate, host: str, tls: ClientTls, now: datetime) -> Finding:
    """Why this machine does not trust the server's certificate: by OpenSSL's `code`, else by what it `said`."""
    if code == _EXPIRED:
        detail = f"the server's certificate expired on {_day(presented.end)}, and this clock says {_day(now)}"
        return Finding(_TLS, detail, "have its operator renew it, or set this machine's clock")
    if code == _NOT_YET_VALID:
        detail = (
            f"the server's certificate is not valid before {_day(presented.begin)}, and this clock says {_day(now)}"
        )
        return Finding(_TLS, detail, "set this machine's clock, or the one of the machine that made the certificate")
    if code in _OTHER_NAME:
        detail = f"the server's certificate is for {', '.join(presented.names) or 'no host'}, not for {host}"
        return Finding(_TLS, detail, f"dial a name that it has, or have its operator make one for {host}")
    if code in _UNKNOWN_ISSUER:
        trusted = (
            "whom this system does not know"
            if tls.ca is None
            else f"but {tls.ca} is the certificate of {_subject(tls.ca)}"
        )
        detail = f"the server's certificate was signed by {presented.issuer}, {trusted}"
        return Finding(_TLS, detail, "get the authority's certificate from the server's operator for --tls-ca")
    if code == _WRONG_PURPOSE:
        return Finding(_TLS, "the server's certificate is not valid for server authentication", "tell its operator")
    return Finding(_TLS, f"the server's certificate is not trusted: {said}", "tell its operator")


def refused(error: Exception | None, tls: ClientTls) -> Finding:
    """Why the server hung up on a client that trusts it; `error` is None if it did so without a word."""
    said = (error.reason or "").lower() if isinstance(error, ssl.SSLError) else ""
    if tls.certificate is None:
        return Finding(
            _TLS,
            "the server asks for a certificate of yours",
            "give --tls-cert and --tls-key, which its operator makes with `outriderd certs --client NAME`",
        )
    reason = said.rpartition("alert_")[2].replace("_", " ")
    return Finding(
        _TLS,
        f"the server does not accept {tls.certificate}" + (f" ({reason})" if reason else ""),
        "have its operator make one with `outriderd certs --client NAME`, of the authority that its --client-ca names",
    )


def _subject(file: Path) -> str:
    try:
        return read_pem(file.read_bytes()).subject
    except (OSError, ValueError):
        return "no certificate"


def _day(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
