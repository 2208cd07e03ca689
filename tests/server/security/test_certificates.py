"""Certificates of a private set-up: their content, what they give access to, and what not."""

import json
import shlex
import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from common.protocol.errors import MisuseError, OutriderError
from common.rpc.credentials import ClientTls
from common.rpc.stub import connect
from server.security.certificates import AUTHORITY_DAYS, Issued, KeyPair, issue
from server.security.certificates_advice import advice
from tests.client.test_cli import outrider
from tests.daemon import outriderd
from tests.server.harness import options_for, running, with_access
from tests.server.test_cli import run

NOW = datetime.now(UTC)


def made(out: Path, *hosts: str, clients: tuple[str, ...] = ("alice",), days: int = 30, now: datetime = NOW) -> Issued:
    return issue(out, hosts or ("127.0.0.1",), clients, days, now)


def commands_in(advice: str) -> list[list[str]]:
    return [shlex.split(line) for line in advice.splitlines() if line.startswith(" ")]


def read(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate.read_bytes())


def of_client(issued: Issued, client: KeyPair | None = None) -> ClientTls:
    return ClientTls(issued.authority, *((client.certificate, client.key) if client else ()))


def test_a_certificate_says_what_it_is_for(tmp_path: Path) -> None:
    issued = made(tmp_path, "GPU.example.org", "10.1.2.3", "fd00::1", "localhost", days=90)
    authority = x509.load_pem_x509_certificate(issued.authority.read_bytes())
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert authority.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert authority.not_valid_after_utc - NOW == pytest.approx(
        timedelta(days=AUTHORITY_DAYS), abs=timedelta(seconds=1)
    )

    assert issued.server is not None
    server, client = read(issued.server), read(issued.clients[0])
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["gpu.example.org", "localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("10.1.2.3"), ip_address("fd00::1")]
    purposes = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    for leaf, purpose in zip((server, client), purposes, strict=True):
        leaf.verify_directly_issued_by(authority)
        assert list(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [purpose]
        constraints = leaf.extensions.get_extension_for_class(x509.BasicConstraints)
        assert (constraints.critical, constraints.value.ca) == (True, False)
        usage = leaf.extensions.get_extension_for_class(x509.KeyUsage)
        assert (usage.critical, usage.value.digital_signature, usage.value.key_cert_sign) == (True, True, False)
        assert leaf.not_valid_before_utc < NOW < leaf.not_valid_after_utc < NOW + timedelta(days=90)
    assert len({authority.serial_number, server.serial_number, client.serial_number}) == 3


def test_keys_are_their_owners_alone(tmp_path: Path) -> None:
    issued = made(tmp_path / "new" / "folder")
    for key in sorted(issued.authority.parent.glob("*.key")):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(issued.authority.parent.stat().st_mode) == 0o700


def test_nothing_is_overwritten_and_more_are_signed_later(tmp_path: Path) -> None:
    first = made(tmp_path, clients=())
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    later = issue(tmp_path, (), ("bob", "carol"), 30, NOW)
    assert later.server is None
    authority = x509.load_pem_x509_certificate(first.authority.read_bytes())
    for pair in later.clients:
        read(pair).verify_directly_issued_by(authority)
    for again in (lambda: made(tmp_path, clients=()), lambda: issue(tmp_path, (), ("dave", "bob"), 30, NOW)):
        with pytest.raises(MisuseError, match="exists and is never overwritten"):
            again()
    assert not (tmp_path / "dave.key").exists()
    assert all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.parametrize("host", ["gpu.example.org:7070", "https://gpu", "a b", "-x", "1.2.3", "", "*.org", "ü.org"])
def test_a_host_that_no_client_dials_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="neither a host's name nor an IP address"):
        made(tmp_path, host)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "fe80::1%eth0"])
def test_where_to_listen_is_no_name(host: str, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="no client can name a server"):
        made(tmp_path, host)


@pytest.mark.parametrize("client", ["ca", "server", "../up", "", "a b", ".x", "alice", "\x1b[2J"])
def test_a_client_that_cannot_be_a_file_is_refused(client: str, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="cannot name a client"):
        made(tmp_path / "out", clients=("alice", client))
    assert not list(tmp_path.iterdir())


def test_an_authority_that_is_not_whole_signs_nothing(tmp_path: Path) -> None:
    made(tmp_path / "a", clients=())
    made(tmp_path / "b", clients=())
    (tmp_path / "a" / "ca.key").replace(tmp_path / "b" / "ca.key")
    for out, sentence in (("a", "ca.key is not there; put it back"), ("b", "is not the key of")):
        with pytest.raises(MisuseError, match=sentence):
            issue(tmp_path / out, (), ("bob",), 30, NOW)
    (tmp_path / "b" / "ca.pem").write_text("no certificate")
    with pytest.raises(MisuseError, match="cannot be read"):
        issue(tmp_path / "b", (), ("bob",), 30, NOW)


def test_nothing_outlives_its_authority(tmp_path: Path) -> None:
    made(tmp_path, now=NOW - timedelta(days=AUTHORITY_DAYS - 10))
    with pytest.raises(MisuseError, match="ask for fewer --days"):
        issue(tmp_path, (), ("bob",), 30, NOW)
    issue(tmp_path, (), ("bob",), 9, NOW)


def test_what_is_made_with_its_authority_may_last_as_long(tmp_path: Path) -> None:
    issued = made(tmp_path, days=AUTHORITY_DAYS, now=NOW.replace(microsecond=1))
    assert issued.server is not None
    authority = x509.load_pem_x509_certificate(issued.authority.read_bytes())
    for pair in (issued.server, *issued.clients):
        assert read(pair).not_valid_after_utc == authority.not_valid_after_utc


def test_the_command_takes_as_many_days_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("certs", "--out", str(tmp_path / "out"), "--host", "127.0.0.1", "--days")
    assert run(monkeypatch, *asked, str(AUTHORITY_DAYS + 1)) == 2
    assert run(monkeypatch, *asked, str(AUTHORITY_DAYS)) == 0


def test_advice_is_the_commands_to_type(tmp_path: Path) -> None:
    out = tmp_path / "a folder"
    serve, ask = commands_in(advice(made(out, "gpu.example.org"), ("gpu.example.org",)))
    assert serve[:2] == ["outriderd", "serve"]
    assert serve[serve.index("--listen") + 1] == "0.0.0.0:7070"
    assert serve[serve.index("--client-ca") + 1] == str(out / "ca.pem")
    assert ask[ask.index("--server") + 1] == "gpu.example.org:7070"
    assert ask[ask.index("--tls-cert") + 1 : ask.index("--tls-key")] == [str(out / "alice.pem")]
    here = advice(made(tmp_path / "here", "::1", clients=()), ("::1",))
    assert "--listen '[::1]:7070'" in here
    assert "--server '[::1]:7070'" in here
    assert "--client-ca" not in here


async def test_each_end_trusts_what_its_authority_signed_for_the_purpose_and_nothing_else(
    target: Path, tmp_path: Path
) -> None:
    own, foreign = made(tmp_path / "own"), made(tmp_path / "foreign")
    assert own.server is not None
    secured = with_access(options_for(target), certificate=own.server.certificate, key=own.server.key)
    async with running(secured) as server:
        async with connect(server.address, tls=of_client(own)) as connection:
            assert (await connection.describe()).vocab_size == 300
        async with connect(server.address, tls=of_client(foreign)) as connection:
            with pytest.raises(MisuseError, match="an authority that is not trusted here"):
                await connection.describe(timeout=5)
    async with running(with_access(secured, client_ca=own.authority)) as server:
        async with connect(server.address, tls=of_client(own, own.clients[0])) as connection:
            assert (await connection.describe()).vocab_size == 300
        refused = (None, foreign.clients[0], own.server)
        for shown in refused:
            async with connect(server.address, tls=of_client(own, shown)) as connection:
                with pytest.raises(OutriderError, match="ask for a certificate of your own"):
                    await connection.describe(timeout=5)


@pytest.mark.parametrize(
    ("hosts", "age", "sentence"),
    [
        (("127.0.0.1",), 40, "has a certificate that has expired"),
        (("127.0.0.1",), -40, "is not valid yet; check this machine's clock"),
        (("gpu.example.org",), 0, "has a certificate for another name"),
    ],
)
async def test_a_client_says_what_it_does_not_trust(
    hosts: tuple[str, ...], age: int, sentence: str, target: Path, tmp_path: Path
) -> None:
    issued = made(tmp_path, *hosts, now=NOW - timedelta(days=age))
    assert issued.server is not None
    options = with_access(options_for(target), certificate=issued.server.certificate, key=issued.server.key)
    async with running(options) as server, connect(server.address, tls=of_client(issued)) as connection:
        with pytest.raises(MisuseError, match=sentence):
            await connection.describe(timeout=5)


async def test_no_client_can_pass_for_the_server(target: Path, tmp_path: Path) -> None:
    issued = made(tmp_path)
    stolen = issued.clients[0]
    options = with_access(options_for(target), certificate=stolen.certificate, key=stolen.key)
    async with running(options) as server, connect(server.address, tls=of_client(issued)) as connection:
        with pytest.raises(MisuseError, match="none of a server"):
            await connection.describe(timeout=5)


def test_what_is_printed_works_as_it_is(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both commands, with a free port and the tests' small model."""
    out = str(tmp_path / "out")
    assert run(monkeypatch, "certs", "--out", out, "--host", "127.0.0.1", "--client", "alice") == 0
    serve, ask = commands_in(capsys.readouterr().out)
    assert serve[:6] == ["outriderd", "serve", "--target", "demo", "--listen", "127.0.0.1:7070"]
    with outriderd("--target", str(target), *serve[6:]) as (_, address):
        here = [address if word == "127.0.0.1:7070" else word for word in ask[1:]]
        short = ("--max-new-tokens", "3", "--json", "--cache-dir")
        code, said, complaint = outrider(monkeypatch, capsys, *here, *short, str(tmp_path / "cache"))
        assert (code, complaint) == (0, "")
        assert json.loads(said)["stats"]["tokens"] > 0
        without_own = here[: here.index("--tls-cert")]
        code, said, complaint = outrider(monkeypatch, capsys, *without_own, *short, str(tmp_path / "another"))
        assert (code, said) == (1, "")
        assert "ask for a certificate of your own" in complaint
