"""The network path to a server: each real fault on loopback is named, with how to fix it."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from client.doctor import network_checks
from client.doctor.network_checks import check_network
from common.address import Address
from common.programs.findings import Finding, Verdict, is_well
from common.rpc.credentials import ClientTls, ServerTls, server_credentials
from server.security.certificates import Issued, issue

NOW = datetime.now(UTC)
HOST = "127.0.0.1"


@contextmanager
def serving(tls: ServerTls | None) -> Iterator[Address]:
    """A gRPC server without services."""
    server = grpc.server(ThreadPoolExecutor(1))
    where = f"{HOST}:0"
    port = server.add_insecure_port(where) if tls is None else server.add_secure_port(where, server_credentials(tls))
    server.start()
    try:
        yield Address(HOST, port)
    finally:
        server.stop(None).wait()


@contextmanager
def answering(reply: bytes, secured: ssl.SSLContext | None = None) -> Iterator[Address]:
    """A port at which every connection receives these bytes, or nothing at all if there are none."""
    with socket.create_server((HOST, 0)) as listener, ExitStack() as kept:

        def answer() -> None:
            while True:
                try:
                    connection = kept.enter_context(listener.accept()[0])
                except OSError:
                    return
                if secured is not None:
                    with suppress(OSError):  # a client may want no more than the certificate
                        kept.enter_context(secured.wrap_socket(connection, server_side=True))
                if reply:
                    connection.sendall(reply)
                    connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield Address(HOST, listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Callable[..., Issued]:
    """`made(name, hosts, clients, begun, days)`: certificates of an authority whose own certificate is always valid."""

    def make(
        name: str,
        hosts: tuple[str, ...] = (HOST,),
        clients: tuple[str, ...] = (),
        begun: timedelta = timedelta(),
        days: int = 90,
    ) -> Issued:
        folder = tmp_path_factory.mktemp(name)
        issue(folder, [], ["first"], 1, NOW - timedelta(days=30))
        return issue(folder, hosts, clients, days, NOW + begun)

    return make


def of_server(issued: Issued, client_ca: Path | None = None) -> ServerTls:
    assert issued.server is not None
    return ServerTls(issued.server.certificate, issued.server.key, client_ca)


def last(address: Address, tls: ClientTls | None = None) -> Finding:
    """The finding of the last step; all others must be well."""
    *before, found = check_network(address, tls, NOW)
    assert is_well(before)
    return found


def test_a_road_without_faults(made):
    issued = made("good", clients=("ann",))
    with serving(None) as address:
        assert [finding.verdict for finding in check_network(address, None, NOW)] == [Verdict.OK] * 3
    with serving(of_server(issued)) as address:
        found = last(address, ClientTls(issued.authority))
        assert found.verdict is Verdict.OK
        assert f"valid until {NOW + timedelta(days=90):%Y-%m-%d}" in found.detail
    ann = ClientTls(issued.authority, issued.clients[0].certificate, issued.clients[0].key)
    with serving(of_server(issued, issued.authority)) as address:
        assert last(address, ann).verdict is Verdict.OK


def test_behind_a_proxy_the_way_to_the_proxy_is_checked(monkeypatch):
    monkeypatch.delenv("no_proxy", raising=False)
    with serving(None) as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy}")
        found = check_network(Address("gpu.behind.invalid", 7070), None, NOW)
    assert [finding.verdict for finding in found] == [Verdict.OK] * 3
    assert f"take the HTTP proxy {proxy}" in found[0].detail
    closed = check_network(Address("gpu.behind.invalid", 7070), None, NOW)
    assert "refuses connections" in closed[-1].detail


def test_a_name_that_nobody_knows():
    found = last(Address("nowhere.invalid", 7070))
    assert (found.subject, found.verdict) == ("name", Verdict.FAIL)
    assert "nowhere.invalid is unknown here" in found.detail


def test_a_port_where_nobody_listens():
    with socket.create_server((HOST, 0)) as listener:
        address = Address(HOST, listener.getsockname()[1])
    found = last(address)
    assert found.subject == "port"
    assert "refuses connections" in found.detail
    assert "outriderd runs there" in found.fix


def test_plain_text_to_a_server_of_tls(made):
    with serving(of_server(made("secure"))) as address:
        found = last(address)
    assert (found.detail, "--tls-ca" in found.fix) == ("off, but the server speaks TLS", True)


def test_tls_to_a_server_of_plain_text(made):
    with serving(None) as address:
        found = last(address, ClientTls(made("unused").authority))
    assert found.detail == "the server speaks plain text"
    assert "leave the TLS options out" in found.fix


@pytest.mark.parametrize("reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n"])
@pytest.mark.parametrize("secure", [False, True])
def test_something_else_at_the_port(made, reply, secure):
    with answering(reply) as address:
        found = last(address, ClientTls() if secure else None)
    assert "is not an Outrider server" in found.detail


@pytest.mark.parametrize("secure", [False, True])
def test_a_server_that_loads_its_model(monkeypatch, secure):
    """Its port is open, as that of `outriderd serve` is, and it has not started."""
    monkeypatch.setattr(network_checks, "_TIMEOUT_S", 0.2)
    server = grpc.server(ThreadPoolExecutor(1))
    address = Address(HOST, server.add_insecure_port(f"{HOST}:0"))
    found = last(address, ClientTls() if secure else None)
    server.stop(None)
    assert (found.subject, found.verdict) == ("server", Verdict.FAIL)
    assert f"a server listens at {address}, but is not ready" in found.detail


def test_a_port_that_never_says_a_word(monkeypatch):
    monkeypatch.setattr(network_checks, "_TIMEOUT_S", 0.2)
    with answering(b"") as address:
        found = last(address)
    assert "says nothing" in found.detail
    assert "check the address and the port" in found.fix


def test_a_server_behind_a_tls_proxy_that_loads_its_model(made, monkeypatch):
    monkeypatch.setattr(network_checks, "_TIMEOUT_S", 0.2)
    issued = made("proxied")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.server.certificate, issued.server.key)
    monkeypatch.setattr(network_checks, "_greeted", None)  # for a server that shows no certificate
    with answering(b"", context) as address:
        found = last(address, ClientTls(issued.authority))
    assert f"a server listens at {address}, but is not ready" in found.detail


def test_an_authority_that_is_not_the_servers(made):
    theirs, ours = made("theirs"), made("ours")
    with serving(of_server(theirs)) as address:
        found = last(address, ClientTls(ours.authority))
        unknown = last(address, ClientTls())
    assert f"but {ours.authority} is the certificate of Outrider authority" in found.detail
    assert "get the authority's certificate" in found.fix
    assert "whom this system does not know" in unknown.detail


@pytest.mark.parametrize(
    ("begun", "says"), [(timedelta(days=-10), "expired on"), (timedelta(days=10), "is not valid before")]
)
def test_a_certificate_out_of_its_time(made, begun, says):
    issued = made("time", begun=begun, days=5)
    with serving(of_server(issued)) as address:
        found = last(address, ClientTls(issued.authority))
    assert says in found.detail
    assert f"this clock says {NOW:%Y-%m-%d}" in found.detail
    assert "clock" in found.fix


def test_a_certificate_that_ends_soon_is_a_warning(made):
    issued = made("soon", days=5)
    with serving(of_server(issued)) as address:
        found = last(address, ClientTls(issued.authority))
    assert (found.verdict, found.fix) == (Verdict.WARN, "have its operator renew it")


def test_a_certificate_for_another_name(made):
    issued = made("names", hosts=("gpu.example", "10.0.0.9"))
    with serving(of_server(issued)) as address:
        found = last(address, ClientTls(issued.authority))
    assert found.detail == f"the server's certificate is for gpu.example, 10.0.0.9, not for {HOST}"


def test_a_client_without_the_certificate_that_is_asked_for(made):
    issued = made("mutual")
    with serving(of_server(issued, issued.authority)) as address:
        found = last(address, ClientTls(issued.authority))
    assert found.detail == "the server asks for a certificate of yours"
    assert "--tls-cert" in found.fix


def test_a_client_with_a_certificate_of_another_authority(made):
    issued, stranger = made("mine"), made("stranger", clients=("bob",))
    bob = ClientTls(issued.authority, stranger.clients[0].certificate, stranger.clients[0].key)
    with serving(of_server(issued, issued.authority)) as address:
        found = last(address, bob)
    assert f"the server does not accept {bob.certificate}" in found.detail
    assert "outriderd certs --client" in found.fix


def test_files_that_are_no_certificates(made, tmp_path):
    issued = made("files")
    (tmp_path / "ca.pem").write_text("nothing")
    with serving(of_server(issued)) as address:
        broken = last(address, ClientTls(tmp_path / "ca.pem"))
        alone = last(address, ClientTls(issued.authority, issued.authority))
    assert "holds no PEM certificate" in broken.fix
    assert "belong together" in alone.fix
