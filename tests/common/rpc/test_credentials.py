"""Broken credentials are reported as sentences before any connection is made."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest

from common.protocol.errors import MisuseError
from common.rpc.credentials import (
    ClientTls,
    ServerTls,
    bearer_metadata,
    bears,
    client_credentials,
    read_token,
    readable_by_others,
    server_credentials,
    warn_of_readable,
)
from server.security.certificates import issue


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"key\.pem cannot be read"):
        server_credentials(ServerTls(tmp_path / "cert.pem", tmp_path / "key.pem"))
    with pytest.raises(MisuseError, match=r"ca\.pem cannot be read"):
        client_credentials(ClientTls(ca=tmp_path / "ca.pem"))


def test_broken_and_mismatched_files_are_refused(tmp_path: Path) -> None:
    issued = issue(tmp_path, ["127.0.0.1"], ["other"], 1, datetime.now(UTC))
    assert issued.server is not None
    authority, certificate, key = issued.authority, issued.server.certificate, issued.server.key
    other_key = issued.clients[0].key
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


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_only_certificates_count_in_a_file_of_authorities(encoding: str, tmp_path: Path) -> None:
    certificate = issue(tmp_path, ["127.0.0.1"], [], 1, datetime.now(UTC)).authority.read_bytes()
    bundle, comment = tmp_path / "bundle.pem", "# Autorité à nous\n".encode(encoding)
    bundle.write_bytes(comment + certificate + comment + certificate)
    client_credentials(ClientTls(bundle))
    bundle.write_bytes(certificate.replace(b"\n", "\né".encode(encoding)))
    with pytest.raises(MisuseError, match="no PEM certificate"):
        client_credentials(ClientTls(bundle))


def test_authorities_are_parsed_once_however_often_a_server_is_dialled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = issue(tmp_path, ["127.0.0.1"], [], 1, datetime.now(UTC)).authority
    make, parsed = ssl.SSLContext, []
    monkeypatch.setattr(ssl, "SSLContext", lambda protocol: parsed.append(protocol) or make(protocol))
    for _ in range(3):
        client_credentials(ClientTls(authority))
    assert len(parsed) == 1


def test_without_an_authority_of_the_persons_choosing_those_of_the_system_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    monkeypatch.setattr(grpc, "ssl_channel_credentials", lambda authorities, *_: given.append(authorities))
    for variable in ("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
    client_credentials(ClientTls())  # gRPC reads its own variable, and comes with a list
    monkeypatch.delenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
    client_credentials(ClientTls())
    certificate = issue(tmp_path, ["127.0.0.1"], [], 1, datetime.now(UTC)).authority.read_bytes()
    bundles = {name: certificate + name.encode() for name in ("ca-bundle.crt", "ca-certificates.crt", "cert.pem")}
    for name, bundle in bundles.items():
        (tmp_path / name).write_bytes(bundle)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    client_credentials(ClientTls())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    client_credentials(ClientTls())
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(tmp_path / "cert.pem"))
    client_credentials(ClientTls())
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "")
    client_credentials(ClientTls())
    chosen = [bundles["ca-certificates.crt"], bundles["cert.pem"], None, bundles["cert.pem"]]
    assert given == [None, None, *chosen]
    (tmp_path / "cert.pem").write_text("no certificate")
    with pytest.raises(MisuseError, match=r"cert\.pem holds no PEM certificate"):
        client_credentials(ClientTls())


def test_tokens_come_from_files(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("  s3cret\n")
    assert read_token(path) == "s3cret"
    for content in ("", "\n", "two\nlines", "ümlaut"):
        path.write_text(content)
        with pytest.raises(MisuseError, match="holds no token"):
            read_token(path)


def test_a_file_of_secrets_that_everybody_can_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hidden, shown, missing = tmp_path / "hidden", tmp_path / "shown", tmp_path / "missing"
    for path, mode in ((hidden, 0o640), (shown, 0o644)):
        path.write_text("s3cret")
        path.chmod(mode)
    assert readable_by_others(hidden, None, shown, missing) == [shown]
    warn_of_readable(hidden, None, shown, missing)
    assert caplog.messages == [f"others on this machine can read the secret in {shown}; run `chmod 600 {shown}`"]


def test_a_token_that_no_header_carries_is_refused_before_it_is_sent() -> None:
    for token in ("two\nlines", "ümlaut", "x" * 4097, "\x7f", "s3cret "):
        with pytest.raises(MisuseError, match="one line of printable ASCII"):
            bearer_metadata(token)
    assert bearer_metadata("x" * 4096)


def test_only_the_token_itself_is_borne() -> None:
    assert bears(bearer_metadata("s3cret"), "s3cret")
    assert bears((("user-agent", "x"), ("authorization", b"Bearer s3cret")), "s3cret")
    assert bearer_metadata(None) == ()
    for metadata in ((), bearer_metadata("s3cre"), (("authorization", "s3cret"),), bearer_metadata("s3cret") * 2):
        assert not bears(metadata, "s3cret")


@pytest.mark.parametrize(
    "value",
    [
        *("", "Bearer ", "Bearer s3cret ", " Bearer s3cret", "bearer s3cret", "Bearer s3cretx", "Bearer S3CRET"),
        *(b"\xff\xfe", "Bearer s3cr\u00e9t", "Bearer \udcff\udc80", "\ud800", "Bearer s3cret\0"),
        "Bearer " + "s3cret" * 100_000,
    ],
)
def test_whatever_else_is_said_is_not_the_token_and_no_fault(value: str | bytes) -> None:
    assert not bears((("authorization", value),), "s3cret")


def test_one_right_value_among_wrong_ones_does_not_do() -> None:
    wrong, right = ("authorization", "Bearer wrong"), ("authorization", "Bearer s3cret")
    for several in ((wrong, right), (right, wrong), (right, right)):
        assert not bears(several, "s3cret")


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares with the one function made for it, over values of equal length whatever was given."""
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)
    for given in ("Bearer s3cret", "Bearer s", "x" * 1000):
        bears((("authorization", given),), "s3cret")
    assert compared == [(32, 32)] * 3
