"""netem.links.tun: real TCP and UDP across a real pair of namespaces. Times are bounded from below only."""

import asyncio
import contextlib
import hashlib
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from common.address import Address
from common.protocol.errors import MisuseError
from netem.links.calibrating.datagrams import Datagrams
from netem.links.errors import LinkFailureError
from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile
from netem.links.profiles import find_profile
from netem.links.sockets import reset_on_close
from netem.links.tun import TunLink
from tests.netem.links.here import needs_tun

pytestmark = needs_tun

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
NO_LINK = find_profile("none")
PATIENCE_S = 15.0


def same_both_ways(direction: Direction, outages: Outages | None = None) -> LinkProfile:
    return LinkProfile("test", "a link for a test", direction, direction, outages or Outages())


@contextlib.asynccontextmanager
async def linked(
    profile: LinkProfile, handler: Handler, congestion: str | None = None, record: bool = False
) -> AsyncIterator[TunLink]:
    async def handle_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            await handler(reader, writer)

    server = await asyncio.start_server(handle_and_close, "127.0.0.1", 0)
    async with server, asyncio.timeout(PATIENCE_S):
        target = Address(*server.sockets[0].getsockname())
        async with TunLink(profile, target, congestion=congestion, record=record) as link:
            yield link


@contextlib.asynccontextmanager
async def connected(link: TunLink) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(link.address.host, link.port)
    with contextlib.closing(writer):
        yield reader, writer


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while received := await reader.read(65536):
        writer.write(received)
        await writer.drain()


async def digest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(hashlib.sha256(await reader.read()).digest())
    await writer.drain()


@pytest.mark.parametrize(
    "profile",
    [
        NO_LINK,
        same_both_ways(Direction(50e6, 3, 3, loss=0.02, queue_bytes=60_000)),
        same_both_ways(Direction(50e6, 3), Outages(((0.05, 0.15),), 0.3)),
    ],
    ids=["no link", "lossy", "interrupted"],
)
async def test_tcp_carries_everything_intact_both_ways(profile: LinkProfile) -> None:
    payload = random.Random(1).randbytes(400_000)
    async with linked(profile, echo) as link, connected(link) as (reader, writer):
        writer.write(payload)
        writer.write_eof()
        assert await reader.read() == payload
        assert (link.bytes_up, link.bytes_down) == (len(payload), len(payload))
        report = await link.report()
    # TCP's headers cross too, and what was lost crosses again.
    assert report.up.bytes > len(payload)
    assert report.down.bytes > len(payload)
    assert (report.up.dropped > 0) == (profile.up.loss > 0)


async def test_a_round_trip_takes_the_delay_twice_and_so_does_the_handshake() -> None:
    async with linked(same_both_ways(Direction(delay_ms=40)), echo) as link:
        started = time.monotonic()
        async with connected(link) as (reader, writer):
            for round_trips in (2, 3, 4):
                writer.write(b"ping")
                await reader.readexactly(4)
                assert time.monotonic() - started >= round_trips * 0.08


async def test_a_transfer_takes_the_rate() -> None:
    link_profile = LinkProfile("narrow", "slow up, free down", Direction(8e6, queue_bytes=100_000), Direction())
    async with linked(link_profile, digest) as link, connected(link) as (reader, writer):
        started = time.monotonic()
        writer.write(bytes(500_000))
        writer.write_eof()
        assert await reader.read() == hashlib.sha256(bytes(500_000)).digest()
        assert time.monotonic() - started >= 500_000 * 8 / 8e6


async def test_nothing_crosses_in_an_outage() -> None:
    started = time.monotonic()
    async with (
        linked(same_both_ways(Direction(50e6), Outages(((0.0, 0.4),))), echo) as link,
        connected(link) as (reader, writer),
    ):
        writer.write(b"ping")
        await reader.readexactly(4)
        # The link began after that.
        assert time.monotonic() - started >= 0.4


async def test_what_is_sent_while_the_link_is_cut_crosses_once_it_is_restored() -> None:
    async with linked(same_both_ways(Direction(50e6)), echo) as link, connected(link) as (reader, writer):
        writer.write(b"ping")
        await reader.readexactly(4)
        dropped = (await link.report()).up.dropped
        link.cut()
        writer.write(b"pong")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(1), 0.3)
        assert (await link.report()).up.dropped > dropped
        link.restore()
        assert await reader.readexactly(4) == b"pong"


async def test_datagrams_keep_their_order_and_the_lost_ones_are_counted() -> None:
    profile = same_both_ways(Direction(20e6, 5, 5, loss=0.1))
    async with linked(profile, echo) as link:
        with Datagrams(link.near, link.far) as datagrams:
            arrivals = await asyncio.to_thread(datagrams.flood, True, 4e6, 0.6, 0.3, 500)
        report = await link.report()
    assert arrivals.sent - arrivals.received == report.up.dropped
    assert 0.04 < report.up.dropped / arrivals.sent < 0.2


async def test_the_same_seed_loses_the_same_packets() -> None:
    async def lost() -> list[int]:
        async with linked(same_both_ways(Direction(20e6, loss=0.2)), echo) as link:
            near, far = link.near.socket(socket.SOCK_DGRAM), link.far.socket(socket.SOCK_DGRAM)
            with near, far:
                far.bind(("198.18.0.2", 0))
                far.settimeout(0.3)
                for number in range(50):
                    near.sendto(bytes([number]), far.getsockname())
                arrived = []
                with contextlib.suppress(TimeoutError):
                    while True:
                        arrived.append((await asyncio.to_thread(far.recv, 10))[0])
        assert arrived == sorted(arrived)
        return arrived

    first = await lost()
    assert 20 < len(first) < 50
    assert await lost() == first


async def test_a_reset_by_the_server_reaches_the_client() -> None:
    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(5)
        reset_on_close(writer.get_extra_info("socket"))

    async with linked(NO_LINK, slam) as link, connected(link) as (reader, writer):
        writer.write(b"hello")
        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_a_client_that_leaves_ends_the_server_side() -> None:
    ended = asyncio.Event()

    async def stream_for_ever(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(bytes(65536))
                await writer.drain()
        finally:
            ended.set()

    async with linked(NO_LINK, stream_for_ever) as link:
        async with connected(link) as (reader, _):
            await reader.readexactly(100_000)
        await ended.wait()


async def test_an_absent_server_closes_the_client() -> None:
    with socket.socket() as bound_but_not_listening:
        bound_but_not_listening.bind(("127.0.0.1", 0))
        target = Address(*bound_but_not_listening.getsockname())
        async with asyncio.timeout(PATIENCE_S), TunLink(NO_LINK, target) as link, connected(link) as (reader, _):
            assert await reader.read() == b""


async def test_the_near_namespace_finds_the_server_on_its_own_loopback() -> None:
    async with linked(NO_LINK, echo) as link:
        inside = link.near.socket(socket.SOCK_STREAM)
        with inside:
            await asyncio.to_thread(inside.connect, (link.server.host, link.server.port))
            inside.sendall(b"ping")
            assert await asyncio.to_thread(inside.recv, 4) == b"ping"


@pytest.mark.parametrize("congestion", ["cubic", "reno"])
async def test_connections_across_the_link_use_the_chosen_congestion_control(congestion: str) -> None:
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="ascii").split()
    if congestion not in available:
        pytest.skip(f"this kernel has no {congestion}")
    async with linked(NO_LINK, echo, congestion=congestion) as link:
        assert link.congestion == congestion
        with link.far.socket(socket.SOCK_STREAM) as listener, link.near.socket(socket.SOCK_STREAM) as crossing:
            listener.bind(("198.18.0.2", 0))
            listener.listen()
            crossing.connect(listener.getsockname())
            accepted, _ = listener.accept()
            with accepted:
                for end in (crossing, accepted):
                    used = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
                    assert used.rstrip(b"\0").decode() == congestion


def test_a_congestion_control_that_is_not_there_is_misuse() -> None:
    with pytest.raises(MisuseError, match="no congestion control 'nonsense'"):
        TunLink(NO_LINK, None, congestion="nonsense")


async def test_what_came_out_is_recorded_where_that_is_wanted() -> None:
    async with linked(NO_LINK, digest, record=True) as link, connected(link) as (reader, writer):
        writer.write(bytes(150_000))
        writer.write_eof()
        await reader.read()
        traces = await link.traces()
    assert traces is not None
    up, down = traces
    assert len(up.opportunities_ms) > 100 > len(down.opportunities_ms)


async def test_leaving_the_link_drops_its_connections_and_its_port() -> None:
    async with linked(NO_LINK, echo) as link:
        reader, writer = await asyncio.open_connection(link.address.host, link.port)
        writer.write(b"ping")
        await reader.readexactly(4)
        address = link.address
    with contextlib.closing(writer), contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(address.host, address.port)


async def test_a_port_in_use_is_a_failure_that_says_so() -> None:
    async with linked(NO_LINK, echo) as link:
        with pytest.raises(LinkFailureError, match="in use"):
            async with TunLink(NO_LINK, Address("127.0.0.1", 1), listen=link.address):
                pass
