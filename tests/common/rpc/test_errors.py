"""gRPC's errors become sentences that say what to do."""

from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest

from common.protocol.errors import OutriderError
from common.rpc.channel import SERVER_OPTIONS
from common.rpc.credentials import ClientTls, ServerTls, server_credentials
from common.rpc.errors import HandshakeError, HungUpError, LinkError, UnauthorizedError, translated
from common.rpc.stub import connect
from server.security.certificates import issue


async def test_ends_that_disagree_on_tls_are_told_so(tmp_path: Path) -> None:
    issued = issue(tmp_path, ["127.0.0.1"], [], 1, datetime.now(UTC))
    assert issued.server is not None
    authority, pair = issued.authority, (issued.server.certificate, issued.server.key)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    plain = server.add_insecure_port("127.0.0.1:0")
    secure = server.add_secure_port("127.0.0.1:0", server_credentials(ServerTls(*pair)))
    mutual = server.add_secure_port("127.0.0.1:0", server_credentials(ServerTls(*pair, authority)))
    await server.start()
    stranger = issue(tmp_path / "stranger", ["127.0.0.1"], [], 1, datetime.now(UTC)).authority
    expected: list[tuple[int, ClientTls | None, type[OutriderError], str]] = [
        (secure, None, HungUpError, "hung up at once; it may speak TLS"),
        (plain, ClientTls(authority), HandshakeError, "speaks no TLS"),
        (mutual, ClientTls(authority), HungUpError, "a certificate of your own, or .*: `outrider doctor` says which"),
        (secure, ClientTls(stranger), HandshakeError, "not trusted here; name it with --tls-ca"),
    ]
    for port, tls, kind, says in expected:
        async with connect(f"127.0.0.1:{port}", tls=tls) as connection:
            with pytest.raises(kind, match=says):
                await connection.describe(5)
    await server.stop(None)


@pytest.mark.parametrize(
    ("status", "details", "says"),
    [
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; Connection refused", "cannot be reached"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", "cannot be reached"),
        (
            grpc.StatusCode.UNAVAILABLE,
            "failed to connect to all addresses; last error: INTERNAL: Failed parsing HTTP/2 (Expected SETTINGS frame "
            "as the first frame, got frame type 80) (Trying to connect an http1.x server (HTTP status 400))",
            "what answers at host:1 is not an Outrider server; check the address and the port",
        ),
        (
            grpc.StatusCode.UNAVAILABLE,
            "errors resolving host:1: [field:hostname lookup error:address lookup failed for host:1: Domain name not "
            "found]",
            "the name of the server at host:1 is unknown here; check its spelling and your link",
        ),
        (grpc.StatusCode.UNAVAILABLE, "DNS resolution failed for host:1: C-ares status is not ARES_SUCCESS", "unknown"),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", "was lost"),
        (grpc.StatusCode.UNAVAILABLE, "recvmsg:Connection reset by peer", "was lost"),
        (grpc.StatusCode.UNAVAILABLE, "ping timeout", "was lost"),
    ],
)
def test_a_lost_connection_is_not_one_that_was_never_made(status: grpc.StatusCode, details: str, says: str) -> None:
    metadata = grpc.aio.Metadata()
    error = translated(grpc.aio.AioRpcError(status, metadata, metadata, details), "host:1")
    assert isinstance(error, LinkError)
    assert says in str(error)


@pytest.mark.parametrize(("bears", "says"), [(False, "asks for a bearer token"), (True, "does not accept the bearer")])
def test_a_bearer_token_that_is_missing_or_refused_is_told_apart_from_other_misuse(bears: bool, says: str) -> None:
    metadata = grpc.aio.Metadata()
    refused = grpc.aio.AioRpcError(grpc.StatusCode.UNAUTHENTICATED, metadata, metadata, "")
    error = translated(refused, "host:1", bears_token=bears)
    assert isinstance(error, UnauthorizedError)
    assert says in str(error)


@pytest.mark.parametrize("status", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNKNOWN])
def test_the_details_of_a_failed_call_command_no_terminal(status: grpc.StatusCode) -> None:
    metadata = grpc.aio.Metadata()
    error = translated(grpc.aio.AioRpcError(status, metadata, metadata, "no\x1b[2J\n" * 10_000), "host:1")
    assert "no [2J no [2J" in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < 1200
