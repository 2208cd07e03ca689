"""Broken credentials are sentences before they are failed connections."""

from pathlib import Path

import pytest

from common.protocol.errors import MisuseError
from common.rpc.credentials import (
    ClientTls,
    ServerTls,
    bearer_metadata,
    bears,
    client_credentials,
    read_token,
    server_credentials,
)
from tests.common.rpc.certificates import make_authority, make_certificate


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"key\.pem cannot be read"):
        server_credentials(ServerTls(tmp_path / "cert.pem", tmp_path / "key.pem"))
    with pytest.raises(MisuseError, match=r"ca\.pem cannot be read"):
        client_credentials(ClientTls(ca=tmp_path / "ca.pem"))


def test_broken_and_mismatched_files_are_refused(tmp_path: Path) -> None:
    authority = make_authority(tmp_path, "ca")
    certificate, key = make_certificate(tmp_path, "server", authority)
    _, other_key = make_certificate(tmp_path, "other", authority)
    garbage = tmp_path / "garbage.pem"
    garbage.write_bytes(b"\xff not a certificate")
    server_credentials(ServerTls(certificate, key, authority))
    client_credentials(ClientTls(authority, certificate, key))
    for tls in (ServerTls(certificate, other_key), ServerTls(garbage, key), ServerTls(certificate, garbage)):
        with pytest.raises(MisuseError, match="no matching PEM"):
            server_credentials(tls)
    with pytest.raises(MisuseError, match="no PEM certificate"):
        client_credentials(ClientTls(ca=garbage))
    with pytest.raises(MisuseError, match="belong together"):
        client_credentials(ClientTls(certificate=certificate))


def test_tokens_come_from_files(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("  s3cret\n")
    assert read_token(path) == "s3cret"
    for content in ("", "\n", "two\nlines", "ümlaut"):
        path.write_text(content)
        with pytest.raises(MisuseError, match="holds no token"):
            read_token(path)


def test_only_the_token_itself_is_borne() -> None:
    assert bears(bearer_metadata("s3cret"), "s3cret")
    assert bearer_metadata(None) == ()
    for metadata in ((), bearer_metadata("s3cre"), (("authorization", "s3cret"),), bearer_metadata("s3cret") * 2):
        assert not bears(metadata, "s3cret")
