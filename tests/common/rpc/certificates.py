"""Throw-away certificates for tests of TLS, made by the openssl command."""

from pathlib import Path
from shutil import which
from subprocess import run

import pytest


def make_authority(directory: Path, name: str) -> Path:
    """A certificate authority; its key lies beside it. Skips the test where there is no openssl."""
    certificate = directory / f"{name}.pem"
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", f"/CN={name}", "-keyout", str(certificate.with_suffix(".key")), "-out", str(certificate)),
    )
    return certificate


def make_certificate(directory: Path, name: str, authority: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that the authority signed, and its key."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    request, extensions = directory / f"{name}.csr", directory / f"{name}.ext"
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    _openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)),
    )
    _openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(authority), "-CAkey", str(authority.with_suffix(".key"))),
        *("-CAcreateserial", "-days", "2", "-extfile", str(extensions), "-out", str(certificate)),
    )
    return certificate, key


def _openssl(*arguments: str) -> None:
    if which("openssl") is None:
        pytest.skip("there is no openssl command to make certificates with")
    run(["openssl", *arguments], check=True, capture_output=True)
