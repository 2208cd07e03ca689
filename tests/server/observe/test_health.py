"""`outriderd health`, as a supervisor runs it."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from common.address import parse_address
from common.protocol.errors import MisuseError
from common.rpc.credentials import ClientTls
from common.rpc.errors import LinkError
from server.assembly import assemble
from server.observe.health import is_serving
from server.security.certificates import issue
from tests.server.harness import options_for, running, with_access
from tests.server.test_cli import run


async def test_a_server_serves_until_it_goes_away(target: Path) -> None:
    parts = assemble(options_for(target))
    await parts.server.start()
    assert await is_serving(parts.address)
    parts.health.set_draining()
    assert not await is_serving(parts.address)
    await parts.server.stop(0)
    with pytest.raises(LinkError, match="cannot be reached"):
        await is_serving(parts.address)


async def test_the_list_has_the_whole_server_alone(target: Path) -> None:
    states = health_pb2.HealthCheckResponse
    parts = assemble(options_for(target))
    await parts.server.start()
    async with grpc.aio.insecure_channel(str(parts.address)) as channel:
        ask = health_pb2_grpc.HealthStub(channel).List
        assert (await ask(health_pb2.HealthListRequest())).statuses == {"": states(status=states.SERVING)}
        parts.health.set_draining()
        assert (await ask(health_pb2.HealthListRequest())).statuses == {"": states(status=states.NOT_SERVING)}
    await parts.server.stop(0)


async def test_no_token_is_asked_for_but_a_certificate_is_checked(target: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    made = issue(tmp_path / "certs", ["gpu.example.com"], ["ann"], 1, datetime.now(UTC))
    assert made.server is not None
    (own,) = made.clients
    authority = made.authority
    secured = with_access(
        options_for(target),
        certificate=made.server.certificate,
        key=made.server.key,
        client_ca=authority,
        token_file=token,
    )
    async with running(secured) as server:
        address, tls = parse_address(server.address), ClientTls(authority, own.certificate, own.key)
        assert await is_serving(address, tls, "gpu.example.com")
        with pytest.raises(MisuseError, match="a certificate for another name"):
            await is_serving(address, tls)


def test_the_command_says_so_and_exits_with_it(
    target: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ask() -> int:
        async with running(options_for(target)) as server:
            return await asyncio.to_thread(run, monkeypatch, "health", server.address)

    assert asyncio.run(ask()) == 0
    assert capsys.readouterr().out == "serving\n"
    assert run(monkeypatch, "health", "127.0.0.1:1") == 1
    assert "cannot be reached" in capsys.readouterr().err


def test_it_is_asked_where_the_same_configuration_has_it_listen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "outriderd.toml"
    file.write_text('[serve]\nlisten = "0.0.0.0:1"\n')
    assert run(monkeypatch, "--config", str(file), "health") == 1
    assert "the server at 127.0.0.1:1 cannot be reached" in capsys.readouterr().err
