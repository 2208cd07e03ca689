"""The channel settings of both ends fit together."""

import socket

import pytest

from common.protocol.errors import OutriderError
from common.protocol.messages import PROTOCOL_VERSION, Open, Settings
from common.rpc.channel import CLIENT_OPTIONS, SERVER_OPTIONS
from common.rpc.convert import frame_from_client
from common.rpc.stub import connect

CLIENT, SERVER = dict(CLIENT_OPTIONS), dict(SERVER_OPTIONS)


def test_a_client_pings_no_faster_than_the_server_permits() -> None:
    assert CLIENT["grpc.keepalive_time_ms"] >= SERVER["grpc.http2.min_ping_interval_without_data_ms"]
    assert CLIENT["grpc.keepalive_permit_without_calls"] == SERVER["grpc.keepalive_permit_without_calls"] == 1


def test_what_one_end_may_send_the_other_may_receive() -> None:
    assert CLIENT["grpc.max_send_message_length"] == SERVER["grpc.max_receive_message_length"]
    assert SERVER["grpc.max_send_message_length"] == CLIENT["grpc.max_receive_message_length"]


def test_the_largest_prompt_fits_and_a_flood_does_not() -> None:
    settings = Settings(2**32 - 1, stop=("x" * 256,) * 16)
    prompt = (2**32 - 1,) * 128 * 1024
    largest = Open(PROTOCOL_VERSION, "f" * 64, "s" * 64, 0, prompt, len(prompt), settings)
    assert frame_from_client(largest).ByteSize() <= SERVER["grpc.max_receive_message_length"] <= 2**20


def test_the_streams_of_one_connection_are_bounded() -> None:
    assert 0 < SERVER["grpc.max_concurrent_streams"] <= 256


def test_metadata_are_bounded_at_both_ends() -> None:
    for end in (CLIENT, SERVER):
        assert end["grpc.max_metadata_size"] == end["grpc.absolute_max_metadata_size"] <= 2**14


async def test_what_is_said_to_this_machine_passes_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC would use a proxy from the environment, because it exempts no loopback address."""
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.listen()
        proxy.setblocking(False)
        for variable in ("http_proxy", "https_proxy", "grpc_proxy"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        for host in ("127.0.0.1", "localhost", "[::1]"):
            async with connect(f"{host}:1") as connection:
                with pytest.raises(OutriderError):
                    await connection.describe(timeout=5)
        with pytest.raises(BlockingIOError):
            proxy.accept()
