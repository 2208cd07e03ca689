"""Authentication: TLS credentials from PEM files, and the bearer token as call metadata.

Files are tried with the standard library first, because gRPC reports a broken one only as a failed connection.
"""

import hashlib
import hmac
import logging
import os
import ssl
import stat
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import grpc

from common.protocol.errors import MisuseError

_log = logging.getLogger(__name__)

_HEADER = "authorization"
_SCHEME = "Bearer "
_GRPC_AUTHORITIES = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"  # gRPC's own variable, which names a file of them

AUTHORITY_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", _GRPC_AUTHORITIES)
"""Variables that name the authorities which the system trusts; OpenSSL reads the first two."""

_SYSTEM_AUTHORITIES = ("ca-certificates.crt", "ca-bundle.crt")
"""Debian's and Fedora's names for the file of all, in the folder where OpenSSL looks for single ones."""

_LONGEST_TOKEN = 4096  # characters; the size of a call's metadata is bounded

Metadata = tuple[tuple[str, str], ...]

CallMetadata = Collection[tuple[str, str | bytes]]
"""Call metadata in the form in which gRPC hands it to a server."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """PEM files of a server; with `client_ca`, clients must present a certificate that it signed."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class ClientTls:
    """PEM files of a client: the authority that signed the server's certificate, None for those that the system
    trusts, and the client's own certificate and key where the server requires them."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


def server_credentials(tls: ServerTls) -> grpc.ServerCredentials:
    """Raises MisuseError for a missing or broken file."""
    pair = _key_pair(tls.certificate, tls.key)
    authority = _authority(tls.client_ca) if tls.client_ca else None
    return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)


def client_credentials(tls: ClientTls) -> grpc.ChannelCredentials:
    """Raises MisuseError for a missing or broken file, and for a certificate without its key."""
    if (tls.certificate is None) != (tls.key is None):
        raise MisuseError("a client certificate and its key belong together; give both or neither")
    authority = _authority(tls.ca) if tls.ca else _system_authorities()
    key, certificate = _key_pair(tls.certificate, tls.key) if tls.certificate and tls.key else (None, None)
    return grpc.ssl_channel_credentials(authority, key, certificate)


def read_token(path: Path) -> str:
    """The bearer token in a file. Raises MisuseError where there is none that fits into a header."""
    token = _read(path, "the token file").decode("utf-8", errors="replace").strip()
    if not fits_into_a_header(token):
        raise MisuseError(f"{path} holds no token; write one line of printable ASCII into it")
    return token


def readable_by_others(*paths: Path | None) -> list[Path]:
    """Those of the given files with secrets that every user of this machine can read."""
    return [path for path in paths if path is not None and path.is_file() and path.stat().st_mode & stat.S_IROTH]


def warn_of_readable(*paths: Path | None) -> None:
    """Logs a warning for each file with secrets that every user of this machine can read."""
    for path in readable_by_others(*paths):
        _log.warning("others on this machine can read the secret in %s; run `chmod 600 %s`", path, path)


def bearer_metadata(token: str | None) -> Metadata:
    """The metadata of each call of a client with `token`. Raises MisuseError for a token that fits into no header."""
    if not token:
        return ()
    if not fits_into_a_header(token):
        raise MisuseError(
            f"a bearer token is one line of printable ASCII without a space at its end, at most {_LONGEST_TOKEN} "
            "characters; give the one that the server's operator issued"
        )
    return ((_HEADER, _SCHEME + token),)


def bears(metadata: CallMetadata, token: str) -> bool:
    """Whether a call's metadata contain this token, and no other. Digests are compared, in constant time, so that the
    time reveals nothing about the token or its length."""
    given = [value for key, value in metadata if key == _HEADER]
    if len(given) != 1:
        return False
    return hmac.compare_digest(_digest(given[0]), _digest(_SCHEME + token))


def _digest(value: str | bytes) -> bytes:
    # Lone surrogates, which UTF-8 cannot encode, must not raise here.
    return hashlib.sha256(value.encode(errors="surrogatepass") if isinstance(value, str) else value).digest()


def fits_into_a_header(token: str) -> bool:
    """Whether a token can be sent in a header, which loses spaces at its end."""
    return 0 < len(token) <= _LONGEST_TOKEN and token.isascii() and token.isprintable() and token == token.rstrip()


def _key_pair(certificate: Path, key: Path) -> tuple[bytes, bytes]:
    pair = _read(key, "the private key"), _read(certificate, "the certificate")
    try:
        # An empty password fails for an encrypted key, where none would ask at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise MisuseError(
            f"{certificate} and {key} are no matching PEM certificate and unencrypted private key"
        ) from error
    return pair


def _authority(path: Path) -> bytes:
    authority = _read(path, "the certificate authority")
    try:
        _check_certificates(authority)
    except (ssl.SSLError, ValueError) as error:
        raise MisuseError(f"{path} holds no PEM certificate") from error
    return authority


# A system's file takes 17 ms, on the event loop, and in an outage servers are dialled all the time.
@lru_cache(maxsize=2)
def _check_certificates(authority: bytes) -> None:
    """Raises SSLError or ValueError where there is none, or one that is invalid."""
    # Comments around certificates may be in any encoding; a backslash within one makes it invalid.
    text = authority.decode("ascii", errors="backslashreplace")
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)


def _system_authorities() -> bytes | None:
    """None where there is no file of all, and gRPC takes a list that comes with it: one that an organisation has
    installed on its machines is not in there. Single ones in the folder are not read."""
    paths = ssl.get_default_verify_paths()
    in_folder = [Path(paths.capath) / name for name in _SYSTEM_AUTHORITIES] if paths.capath else []
    files = [*([Path(paths.cafile)] if paths.cafile else []), *in_folder]
    found = next((file for file in files if file.is_file()), None)
    return None if found is None or os.environ.get(_GRPC_AUTHORITIES) else _authority(found)


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MisuseError(f"{what} {path} cannot be read: {error.strerror}") from error
