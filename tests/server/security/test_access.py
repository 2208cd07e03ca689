"""Access control: bearer tokens, TLS and mutual TLS, health checks for everyone."""

import asyncio
import socket
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from common.address import Address
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.messages import Ack, Settings
from common.rpc.channel import SERVER_OPTIONS
from common.rpc.credentials import Metadata, bearer_metadata
from common.rpc.description import FileRequest
from common.rpc.errors import LinkError
from common.rpc.service import SERVICE_NAME
from common.rpc.stub import connect
from server import assembly
from server.options import AccessOptions
from server.security import access
from server.security.access import open_port, port_credentials
from server.security.certificates import issue
from server.security.tokens import NOBODY
from tests.server.harness import new_session, options_for, running, with_access


async def test_only_the_right_bearer_token_gets_in(target: Path, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    async with running(with_access(options_for(target), token_file=path)) as server:
        async with connect(server.address, token="s3cret") as connection:
            assert (await connection.describe()).vocab_size == 300
        for token, says in (
            (None, "asks for a bearer token; give"),
            ("wrong", "does not accept the bearer"),
        ):
            async with connect(server.address, token=token) as connection:
                with pytest.raises(MisuseError, match=says):
                    await connection.describe()
                stream = connection.generate()
                stream.send(Ack(0, 1))
                with pytest.raises(MisuseError, match=says):
                    await stream.receive()
                with pytest.raises(MisuseError, match=says):
                    await anext(connection.fetch(FileRequest("bundle", "file", 0)))
        async with grpc.aio.insecure_channel(server.address) as channel:
            reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
            # Nothing is written: a write that crosses the refusal fails with a status code of its own.
            refused = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
            assert await refused.code() is grpc.StatusCode.UNAUTHENTICATED
            assert SERVICE_NAME in await _services(channel, bearer_metadata("s3cret"))


async def test_a_tokens_file_that_everybody_can_read_is_told_at_the_start(
    target: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    named = tmp_path / "tokens.toml"
    named.write_text('[alice]\ntoken = "hers"\n')
    for mode, told in ((0o644, 1), (0o600, 0)):
        named.chmod(mode)
        caplog.clear()
        async with running(with_access(options_for(target), tokens_file=named)):
            assert sum(str(named) in message for message in caplog.messages) == told


async def test_named_tokens_get_in_and_their_names_reach_the_sessions(target: Path, tmp_path: Path) -> None:
    shared, named = tmp_path / "token", tmp_path / "tokens.toml"
    shared.write_text("for all\n")
    named.write_text('[alice]\ntoken = "hers"\n[bob]\ntoken = "his"\n')
    async with running(with_access(options_for(target), token_file=shared, tokens_file=named)) as server:
        for token, name in (("hers", "alice"), ("his", "bob"), ("for all", NOBODY)):
            async with connect(server.address, token=token) as connection:
                session, stream = await new_session(connection), connection.generate()
                stream.send(session.open([5, 6], Settings(400)))
                await stream.receive()
                assert [entry.client for entry in server.engine.sessions._registry.entries] == [name]
                stream.close()
            while len(server.engine.sessions):
                await asyncio.sleep(0.01)
        async with connect(server.address, token="another") as connection:
            with pytest.raises(MisuseError, match="bearer token"):
                await connection.describe()


async def test_reflection_names_the_services(target: Path) -> None:
    async with running(options_for(target)) as server, grpc.aio.insecure_channel(server.address) as channel:
        assert {SERVICE_NAME, health.SERVICE_NAME} <= await _services(channel)


async def test_a_client_without_tls_is_told_what_may_be_amiss(target: Path, tmp_path: Path) -> None:
    pair = issue(tmp_path, ["127.0.0.1"], [], 1, datetime.now(UTC)).server
    assert pair is not None
    secured = with_access(options_for(target), certificate=pair.certificate, key=pair.key)
    async with running(secured) as server, connect(server.address) as connection:
        with pytest.raises(OutriderError, match="hung up at once; it may speak TLS"):
            await connection.describe(timeout=5)


async def test_nobody_there_is_a_sentence() -> None:
    async with connect("127.0.0.1:1") as connection:
        with pytest.raises(LinkError, match=r"127\.0\.0\.1:1 cannot be reached"):
            await connection.describe(timeout=5)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "::ffff:0.0.0.0", "10.0.0.1", "gpu.example.org"])
def test_plain_text_off_loopback_must_be_asked_for(host: str, tmp_path: Path) -> None:
    open_to_all = AccessOptions(Address(host, 0), None, None, None, None, insecure=False)
    with pytest.raises(MisuseError, match="--insecure"):
        port_credentials(open_to_all)
    assert port_credentials(replace(open_to_all, insecure=True)) is None
    half = AccessOptions(Address("0.0.0.0", 0), tmp_path / "cert.pem", None, None, None, insecure=True)
    with pytest.raises(MisuseError, match="--tls-key"):
        port_credentials(half)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_port_in_use_costs_no_time(host: str, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if another of the host's addresses is free; no weights are loaded and no drafts hashed."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the port should have come first")

    for slow in ("make_offers", "assemble_target"):
        monkeypatch.setattr(assembly, slow, refuse)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = Address(host, other.getsockname()[1])
        with pytest.raises(MisuseError, match=f"{taken} is in use"):
            assembly.assemble(with_access(options_for(target), listen=taken))


async def test_any_free_port_is_free_at_every_address_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel looks for one at the first address alone, where another program may have the rest."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        chosen = [other.getsockname()[1]]

        class Kernel(socket.socket):
            def bind(self, address: Any) -> None:
                super().bind((address[0], address[1] or (chosen.pop() if chosen else 0)))

        monkeypatch.setattr(access.socket, "socket", Kernel)
        server = grpc.aio.server(options=SERVER_OPTIONS)
        opened = open_port(server, Address("localhost", 0), None)
        monkeypatch.undo()
        assert (chosen, opened.host) == ([], "localhost")
        assert opened.port != other.getsockname()[1]
        await server.start()
        with socket.create_connection(("127.0.0.1", opened.port)):
            pass
        await server.stop(None)


@pytest.mark.parametrize(("platform", "is_held"), [("linux", True), ("darwin", False)])
async def test_a_port_is_held_while_grpc_binds_it_where_it_then_can(
    platform: str, is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere than on Linux no socket binds what another has bound."""
    monkeypatch.setattr(access.sys, "platform", platform)
    with access._held(Address("127.0.0.1", 0)) as where, socket.socket() as strict:
        refused = pytest.raises(OSError, match="in use") if is_held else nullcontext()
        with refused:
            strict.bind(("127.0.0.1", where.port))


async def test_two_servers_share_no_port(target: Path) -> None:
    async with running(options_for(target)) as server:
        taken = Address("127.0.0.1", int(server.address.rpartition(":")[2]))
        with pytest.raises(MisuseError, match="in use"):
            async with running(with_access(options_for(target), listen=taken)):
                raise AssertionError("two servers share a port")


async def _services(channel: grpc.aio.Channel, metadata: Metadata = ()) -> set[str]:
    """The services that reflection lists."""
    ask = reflection_pb2.ServerReflectionRequest(list_services="")
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    async for reply in stub.ServerReflectionInfo(iter([ask]), metadata=metadata):
        return {service.name for service in reply.list_services_response.service}
    return set()
