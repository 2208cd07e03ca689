"""netem.links.proxy over loopback sockets. Times are only bounded from below, since a busy machine may be late."""

import asyncio
import contextlib
import hashlib
import random
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from common.address import Address
from netem.links.errors import LinkFailureError
from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile
from netem.links.profiles import find_profile
from netem.links.proxy import Proxy
from netem.links.sockets import reset_on_close

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

NO_LINK = find_profile("none")
PATIENCE_S = 10.0


def same_both_ways(direction: Direction) -> LinkProfile:
    return LinkProfile("test", "a link for a test", up=direction, down=direction)


@contextlib.asynccontextmanager
async def proxied(profile: LinkProfile, handler: Handler, record: bool = False) -> AsyncIterator[Proxy]:
    async def handle_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            await handler(reader, writer)

    server = await asyncio.start_server(handle_and_close, "127.0.0.1", 0)
    async with server, asyncio.timeout(PATIENCE_S):
        port = server.sockets[0].getsockname()[1]
        async with Proxy(profile, Address("127.0.0.1", port), record=record) as proxy:
            yield proxy


@contextlib.asynccontextmanager
async def connected(proxy: Proxy) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    with contextlib.closing(writer):
        yield reader, writer


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while received := await reader.read(65536):
        writer.write(received)
        await writer.drain()


async def answer_with_digest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(hashlib.sha256(await reader.read()).digest())
    await writer.drain()


@pytest.mark.parametrize(
    "profile",
    [NO_LINK, same_both_ways(Direction(50e6, delay_ms=5, jitter_ms=5))],
    ids=["no link", "jittery link"],
)
async def test_bytes_come_through_intact_both_ways_and_are_counted(profile: LinkProfile) -> None:
    payload = random.Random(1).randbytes(1_000_000)
    async with proxied(profile, echo) as proxy, connected(proxy) as (reader, writer):
        writer.write(payload)
        writer.write_eof()
        returned = await reader.read()
        assert hashlib.sha256(returned).digest() == hashlib.sha256(payload).digest()
        assert (proxy.bytes_up, proxy.bytes_down) == (len(payload), len(payload))


async def test_a_half_that_closes_leaves_the_other_open() -> None:
    payload = b"everything the client has to say"
    async with proxied(NO_LINK, answer_with_digest) as proxy, connected(proxy) as (reader, writer):
        writer.write(payload)
        writer.write_eof()
        assert await reader.read() == hashlib.sha256(payload).digest()


async def test_what_is_in_flight_arrives_before_the_close() -> None:
    async def say_and_leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"goodbye")

    async with (
        proxied(same_both_ways(Direction(delay_ms=50)), say_and_leave) as proxy,
        connected(proxy) as (reader, _),
    ):
        assert await reader.read() == b"goodbye"


async def test_a_reset_by_the_client_reaches_the_server_as_a_reset() -> None:
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"welcome")
        try:
            await reader.read()
            outcome.set_result("closed")
        except ConnectionResetError:
            outcome.set_result("reset")

    async with proxied(NO_LINK, watch) as proxy:
        async with connected(proxy) as (reader, writer):
            await reader.readexactly(7)
            reset_on_close(writer.get_extra_info("socket"))
        assert await outcome == "reset"


async def test_a_reset_by_the_server_reaches_the_client_as_a_reset() -> None:
    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(5)
        reset_on_close(writer.get_extra_info("socket"))

    async with proxied(NO_LINK, slam) as proxy, connected(proxy) as (reader, writer):
        writer.write(b"hello")
        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_a_client_that_leaves_while_the_server_streams_ends_the_server_side() -> None:
    ended = asyncio.Event()

    async def stream_for_ever(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(bytes(65536))
                await writer.drain()
        finally:
            ended.set()

    async with proxied(NO_LINK, stream_for_ever) as proxy:
        async with connected(proxy) as (reader, _):
            await reader.readexactly(100_000)
        await ended.wait()


async def test_an_absent_server_closes_the_client_and_the_proxy_goes_on() -> None:
    with socket.socket() as bound_but_not_listening:
        bound_but_not_listening.bind(("127.0.0.1", 0))
        target = Address(*bound_but_not_listening.getsockname())
        async with asyncio.timeout(PATIENCE_S), Proxy(NO_LINK, target) as proxy:
            for _ in range(2):
                async with connected(proxy) as (reader, _):
                    assert await reader.read() == b""


async def test_a_round_trip_takes_the_delay_twice() -> None:
    delay_ms = 40
    link = same_both_ways(Direction(delay_ms=delay_ms))
    async with proxied(link, echo) as proxy, connected(proxy) as (reader, writer):
        for _ in range(3):
            started = time.monotonic()
            writer.write(b"ping")
            assert await reader.readexactly(4) == b"ping"
            elapsed_ms = (time.monotonic() - started) * 1000
            assert 2 * delay_ms <= elapsed_ms < 2 * delay_ms + 2000


async def test_messages_in_flight_share_the_delay_and_do_not_queue_for_it() -> None:
    delay_ms, messages = 100, 50
    link = same_both_ways(Direction(delay_ms=delay_ms))
    async with proxied(link, echo) as proxy, connected(proxy) as (reader, writer):
        started = time.monotonic()
        for _ in range(messages):
            writer.write(b"ping")
            await asyncio.sleep(0)
        await reader.readexactly(4 * messages)
        assert time.monotonic() - started < messages * delay_ms / 1000


async def test_all_connections_together_are_no_faster_than_the_link() -> None:
    rate_bits_per_s, payload, connections = 4e6, bytes(50_000), 4
    link = LinkProfile("narrow", "slow up, free down", Direction(rate_bits_per_s), Direction())

    async def send(proxy: Proxy) -> None:
        async with connected(proxy) as (reader, writer):
            writer.write(payload)
            writer.write_eof()
            await reader.read()

    async with proxied(link, answer_with_digest) as proxy:
        started = time.monotonic()
        await asyncio.gather(*(send(proxy) for _ in range(connections)))
        assert time.monotonic() - started >= connections * len(payload) * 8 / rate_bits_per_s


async def test_the_two_directions_have_their_own_rate() -> None:
    rate_bits_per_s, payload = 4e6, bytes(50_000)
    link = LinkProfile("narrow", "free up, slow down", Direction(), Direction(rate_bits_per_s))
    async with proxied(link, echo) as proxy, connected(proxy) as (reader, writer):
        started = time.monotonic()
        writer.write(payload)
        await reader.readexactly(len(payload))
        assert time.monotonic() - started >= len(payload) * 8 / rate_bits_per_s


async def test_a_lossy_link_delivers_everything_late() -> None:
    delay_ms, payload = 20, random.Random(2).randbytes(300_000)
    lossy = same_both_ways(Direction(50e6, delay_ms=delay_ms, loss=0.2))
    async with proxied(lossy, echo) as proxy, connected(proxy) as (reader, writer):
        started = time.monotonic()
        writer.write(payload)
        writer.write_eof()
        assert await reader.read() == payload
        # Among 200 packets some are lost, and each waits for a round trip at least.
        assert time.monotonic() - started >= 2 * 2 * delay_ms / 1000


async def test_nothing_crosses_in_an_outage() -> None:
    tunnel = LinkProfile("tunnel", "gone for a moment", Direction(50e6), Direction(50e6), Outages(((0.0, 0.5),)))
    started = time.monotonic()
    async with proxied(tunnel, echo) as proxy, connected(proxy) as (reader, writer):
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        assert time.monotonic() - started >= 0.5


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere connections wait instead of being refused")
async def test_nothing_enters_a_link_that_is_cut_and_nothing_is_lost() -> None:
    async with proxied(NO_LINK, echo) as proxy, connected(proxy) as (reader, writer):
        for ping in (b"ping", b"pong"):
            writer.write(ping)
            assert await reader.readexactly(4) == ping
            carried = proxy.bytes_up
            proxy.cut()
            proxy.cut()
            writer.write(b"late")
            if ping == b"pong":
                writer.write_eof()
            answering = asyncio.ensure_future(reader.readexactly(4))
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", proxy.port)
            assert not answering.done()
            assert proxy.bytes_up == carried
            proxy.restore()
            proxy.restore()
            assert await answering == b"late"
            async with connected(proxy) as (another_reader, another):
                another.write(b"new!")
                assert await another_reader.readexactly(4) == b"new!"
        assert await reader.read() == b""


async def test_a_link_that_is_cut_keeps_a_port_that_was_asked_for() -> None:
    async with proxied(NO_LINK, echo) as first:
        asked_for = first.address
        async with proxied(NO_LINK, echo) as free:
            another = Address("127.0.0.1", free.port)
        async with Proxy(NO_LINK, asked_for, another) as proxy:
            proxy.cut()
            assert proxy.address == another
            proxy.restore()
            async with connected(proxy) as (reader, writer):
                writer.write(b"ping")
                assert await reader.readexactly(4) == b"ping"


async def test_what_came_out_is_recorded_where_that_is_wanted() -> None:
    async with proxied(NO_LINK, answer_with_digest, record=True) as proxy, connected(proxy) as (reader, writer):
        writer.write(bytes(15_000))
        writer.write_eof()
        await reader.read()
        traces = await proxy.traces()
    assert traces is not None
    assert [len(trace.opportunities_ms) for trace in traces] == [11, 1]


async def test_nothing_is_recorded_unasked() -> None:
    async with proxied(NO_LINK, echo) as proxy:
        assert await proxy.traces() is None


async def test_a_receiver_that_stops_reading_stops_the_sender() -> None:
    more_than_every_buffer_on_the_way = 50_000_000
    may_read = asyncio.Event()

    async def wait_before_reading(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await may_read.wait()
        await reader.read(1)

    async with proxied(NO_LINK, wait_before_reading) as proxy, connected(proxy) as (_, writer):
        writer.write(bytes(more_than_every_buffer_on_the_way))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.drain(), timeout=1.0)
        writer.transport.abort()
        may_read.set()


async def test_many_connections_live_side_by_side() -> None:
    async def exchange(proxy: Proxy, number: int) -> None:
        async with connected(proxy) as (reader, writer):
            message = number.to_bytes(4, "big") * 500
            writer.write(message)
            assert await reader.readexactly(len(message)) == message

    async with proxied(same_both_ways(Direction(delay_ms=5)), echo) as proxy:
        await asyncio.gather(*(exchange(proxy, number) for number in range(100)))


async def test_leaving_the_proxy_drops_its_connections_and_its_port() -> None:
    async with proxied(NO_LINK, echo) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"ping")
        await reader.readexactly(4)
        port = proxy.port
    with contextlib.closing(writer), contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_port_in_use_is_a_failure_that_says_so() -> None:
    async with proxied(NO_LINK, echo) as proxy:
        with pytest.raises(LinkFailureError, match="in use"):
            async with Proxy(NO_LINK, Address("127.0.0.1", 1), listen=proxy.address):
                pass
