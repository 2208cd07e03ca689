"""Which of several replicas a client uses, and where it goes when that is gone. Real connections to servers that only
describe themselves."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import grpc
import pytest

from client.link import replicas
from client.link.replicas import choose_other, choose_replica, dial_replica, followed, with_list
from client.link.stream import Access
from common.address import Address
from common.bundle import make_manifest
from common.protocol.errors import MisuseError
from common.protocol.messages import PROTOCOL_VERSION
from common.rpc.channel import SERVER_OPTIONS
from common.rpc.credentials import ClientTls
from common.rpc.description import ServerDescription
from common.rpc.errors import LinkError
from common.rpc.service import OutriderService, register
from common.rpc.stub import Connection

LOOKUP = make_manifest("lookup", "lookup", "f", [])
OTHER_TARGET = {"fingerprint": "g", "bundles": (make_manifest("lookup", "lookup", "g", []),)}
SAID = ServerDescription(PROTOCOL_VERSION, "0.1", "demo", "f", 50, 400, 64, (0,), ("greedy",), ("auto",), (LOOKUP,))


class Described(OutriderService):
    """A replica of which only the description matters."""

    def __init__(self, said: ServerDescription):
        self.said = said
        self.asked = 0
        self.address = Address("127.0.0.1", 0)

    def describe(self, model: str) -> ServerDescription:
        self.asked += 1
        return self.said

    def fetch(self, request):
        raise NotImplementedError

    def generate(self, messages, metadata, peer):
        raise NotImplementedError

    async def begin(self) -> None:
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        register(self, self._server)
        self.address = replace(self.address, port=self._server.add_insecure_port(str(self.address)))
        await self._server.start()

    async def end(self) -> None:
        await self._server.stop(0)


@asynccontextmanager
async def fleet(*loads: float, listed: bool = True) -> AsyncIterator[list[Described]]:
    servers = [Described(replace(SAID, load=load)) for load in loads]
    try:
        for server in servers:
            await server.begin()
        for server in servers if listed else ():
            server.said = replace(server.said, replicas=tuple(each.address for each in servers))
        yield servers
    finally:
        for server in servers:
            await server.end()


def access_to(*servers: Described, follow: bool = False) -> Access:
    first, *others = (server.address for server in servers)
    return Access(first, others=tuple(others), follow_replicas=follow)


def in_turn(*order: float) -> Callable[[], float]:
    """Chance that puts addresses in this order, again and again."""
    numbers = count()
    return lambda: order[next(numbers) % len(order)]


async def chosen(access: Access, uniform=None, **options) -> Access:
    replica = await choose_replica(access, 5.0, uniform=uniform or Random(7).random, **options)
    assert replica.connection.is_ready
    await replica.connection.close()
    return replica.access


async def test_the_less_loaded_of_two_is_taken_and_the_others_stand_behind_it() -> None:
    async with fleet(0.5, 0.1, 0.3, listed=False) as (busy, free, between):
        access = access_to(busy, free, between)
        found = await chosen(access, in_turn(0, 1, 2))
        assert found.addresses == (free.address, busy.address, between.address)
        assert found.given == access.addresses
        assert (await chosen(access, in_turn(0, 2, 1))).address == between.address, "the freest one was not drawn"
        assert between.asked == free.asked == 1


async def test_of_two_that_are_equally_loaded_each_is_taken_at_times() -> None:
    async with fleet(0.25, 0.25, listed=False) as servers:
        uniform = Random(3).random
        taken = Counter([(await chosen(access_to(*servers), uniform)).address for _ in range(12)])
    # Not how often: one whose answer came late on a busy machine is not taken then.
    assert len(taken) == 2


async def test_one_address_leads_to_all_replicas_that_the_server_lists() -> None:
    async with fleet(0.9, 0.5, 0.1) as (given, second, third):
        found = await chosen(access_to(given, follow=True), in_turn(0, 2, 1, 0))
        assert found.addresses == (third.address, given.address, second.address)
        assert found.given == (given.address,)


async def test_who_trusts_no_list_stays_with_the_addresses_that_were_given() -> None:
    async with fleet(0.9, 0.5, 0.1) as (given, second, third):
        assert (await chosen(access_to(given))).addresses == (given.address,)
        found = await chosen(access_to(given, second), remembered=(third.address,))
        assert found.addresses == (second.address, given.address)
        assert third.asked == 0, "a token would have gone there"


async def test_what_was_listed_before_is_asked_without_the_address_that_was_given() -> None:
    async with fleet(0.9, 0.5, 0.1) as (given, second, third):
        remembered = (second.address, third.address)
        for each in (second, third):
            each.said = replace(each.said, replicas=remembered)
        found = await chosen(access_to(given, follow=True), remembered=remembered)
        assert (found.address, given.asked) == (third.address, 0)
        assert given.address in found.others


async def test_a_replica_that_is_gone_is_passed_over() -> None:
    async with fleet(0.0, 0.5, 0.7) as (gone, second, third):
        await gone.end()
        for order in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
            access = access_to(second, follow=True)
            found = await chosen(access, in_turn(0, *order), remembered=second.said.replicas)
            assert found.address in (second.address, third.address)


async def test_without_any_replica_the_client_is_told_as_of_one_server() -> None:
    async with fleet(0.0, 0.5, 0.7, listed=False) as servers:
        for server in servers:
            await server.end()
        with pytest.raises(LinkError, match="cannot be reached; check its address and your link"):
            await chosen(access_to(*servers))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (OTHER_TARGET, r"the target demo \(f\) is not demo \(g\)|the target demo \(g\) is not demo \(f\)"),
        ({"bundles": ()}, "only one of them has the draft model 'lookup'"),
    ],
)
async def test_servers_that_are_no_replicas_are_named_and_refused(change, sentence: str) -> None:
    async with fleet(0.0, 0.5, listed=False) as (first, other):
        other.said = replace(other.said, **change)
        with pytest.raises(
            MisuseError, match=rf"127\.0\.0\.1:\d+ and 127\.0\.0\.1:\d+ are no replicas: ({sentence}); name"
        ):
            await chosen(access_to(first, other))


HERE, THERE = Address("127.0.0.1", 1), Address("10.0.0.1", 1)


def test_listed_addresses_are_followed_on_the_same_side_of_the_network_only() -> None:
    assert followed(Access(Address("::1", 7), follow_replicas=True), [THERE, HERE, HERE]) == (HERE,)
    assert followed(Access(Address("gpu.example.org", 7), follow_replicas=True), [THERE, HERE]) == (THERE,)


@pytest.mark.parametrize(
    ("how", "is_followed"),
    [
        ({}, False),
        ({"tls": ClientTls()}, False),
        ({"tls": ClientTls(certificate=Path("me.pem"))}, False),
        ({"tls": ClientTls(Path("ca.pem"))}, True),
        ({"follow_replicas": True}, True),
    ],
)
def test_a_list_is_trusted_with_an_authority_of_ones_own_or_if_one_says_so(how, is_followed: bool) -> None:
    server = Address("gpu.example.org", 7)
    assert followed(Access(server, **how), [THERE]) == ((THERE,) if is_followed else ())
    assert followed(Access(server, others=(THERE,), **how), [THERE]) == (THERE,), "it was given"


def test_a_new_list_replaces_what_was_listed_and_not_what_was_given() -> None:
    first, second = Address("10.0.0.2", 1), Address("10.0.0.3", 1)
    access = Access(Address("gpu.example.org", 7), follow_replicas=True)
    listed = with_list(with_list(access, [first]), [second, access.address])
    assert listed == replace(access, others=(second,), named=(access.address,))
    moved = replace(listed, address=second, others=(access.address,))
    assert with_list(moved, [THERE]).addresses == (second, THERE, access.address)
    assert with_list(moved, []) == moved, "a server that is alone again lists nobody"


async def test_a_session_stays_on_its_replica_while_that_answers() -> None:
    async with fleet(0.9, 0.0) as (own, free):
        access, connection = await dial_replica(access_to(own, free), own.said)
        await connection.close()
        assert (access.address, own.asked, free.asked) == (own.address, 0, 0)


async def test_a_replica_that_refuses_is_left_for_the_less_loaded_other_and_kept_in_mind() -> None:
    async with fleet(0.0, 0.5, 0.3) as (own, busy, free):
        await own.end()
        access, connection = await dial_replica(access_to(own, busy, free), own.said)
        assert connection.is_ready
        await connection.close()
        assert access.addresses == (free.address, own.address, busy.address)


async def test_a_replica_that_is_moved_to_says_who_is_there_now() -> None:
    async with fleet(0.0, 0.5, 0.9) as (own, other, new):
        await own.end()
        other.said = replace(other.said, replicas=(other.address, new.address))
        moving = replace(access_to(own, other, follow=True), named=(other.address,))
        access, connection = await dial_replica(moving, own.said)
        await connection.close()
        assert access.addresses == (other.address, new.address)


async def test_in_place_of_full_replicas_another_one_is_chosen() -> None:
    async with fleet(0.5, 0.1, 0.9, listed=False) as (own, full, free):
        replica = await choose_other(access_to(own, full, free), own.said, [own.address, full.address])
        assert replica is not None
        await replica.connection.close()
        assert (replica.access.address, full.asked) == (free.address, 0)
        full_ones = [full.address, free.address]
        assert await choose_other(access_to(own, full, free), own.said, full_ones) is None


async def test_a_refusal_does_not_wait_for_each_silent_replica(monkeypatch) -> None:
    monkeypatch.setattr(replicas, "_SEARCH_S", 0.4)
    called = list[object]()
    silent = await asyncio.start_server(lambda reader, writer: called.append(reader), "127.0.0.1", 0)
    async with silent, fleet(0.5) as (own,):
        heard_by = silent.sockets[0].getsockname()[1]
        others = tuple(Address(f"127.0.0.{host}", heard_by) for host in range(2, 30))
        asked, ask = list[Address](), replicas._Inquiry._ask

        async def noted(inquiry, address, seconds):
            asked.append(address)
            return await ask(inquiry, replace(address, host="127.0.0.1"), seconds)

        monkeypatch.setattr(replicas._Inquiry, "_ask", noted)
        assert await choose_other(Access(own.address, others=others), own.said, [own.address]) is None
    assert 2 < len(asked) <= 6, "some pairs, and not all of them"


@contextmanager
def silent(count: int) -> Iterator[list[Address]]:
    """Addresses that take connections and say nothing."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        yield [Address("127.0.0.1", each.getsockname()[1]) for each in listeners]


@pytest.mark.parametrize("remembered", [2, 12])
async def test_the_given_address_answers_where_all_that_is_remembered_is_silent(remembered: int) -> None:
    with silent(remembered) as gone:
        async with fleet(0.5) as (given,):
            replica = await choose_replica(Access(given.address, follow_replicas=True), 2.0, remembered=gone)
            await replica.connection.close()
    assert replica.access.address == given.address


@pytest.mark.parametrize("remembered", [0, 1, 5])
async def test_where_all_are_silent_no_server_is_reached(remembered: int) -> None:
    with silent(1 + remembered) as (given, *gone), pytest.raises(LinkError):
        await choose_replica(Access(given, follow_replicas=True), 0.5, remembered=gone)


async def test_a_replica_that_is_silent_is_left_once_another_has_answered(monkeypatch) -> None:
    monkeypatch.setattr(replicas, "_HEAD_START_S", 0.1)
    monkeypatch.setattr(replicas, "_GRACE_S", 0.1)
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
    async with silent, fleet(0.5) as (other,):
        own = Address("127.0.0.1", silent.sockets[0].getsockname()[1])
        access, connection = await dial_replica(Access(own, others=(other.address,)), other.said)
        await connection.close()
    assert access.address == other.address


@pytest.mark.parametrize("is_given", [False, True])
async def test_a_session_finds_the_one_replica_that_answers_among_silent_ones(monkeypatch, is_given: bool) -> None:
    """All that a server listed may be gone; what was given is asked early."""
    monkeypatch.setattr(replicas, "_HEAD_START_S", 0.02)
    monkeypatch.setattr(replicas, "_GRACE_S", 0.02)
    monkeypatch.setattr(replicas, "_shuffled", lambda addresses, *_: list(addresses))
    asked, ask = list[Address](), replicas._Inquiry._ask

    async def noted(inquiry, address, seconds):
        asked.append(address)
        return await ask(inquiry, address, seconds)

    monkeypatch.setattr(replicas._Inquiry, "_ask", noted)
    with silent(9) as (own, *gone):
        async with fleet(0.5) as (alive,), asyncio.timeout(3.0):
            named = (alive.address if is_given else own,)
            access = Access(own, others=(*gone, alive.address), named=named, follow_replicas=True)
            moved, connection = await dial_replica(access, alive.said)
            await connection.close()
    assert moved.address == alive.address
    assert asked.index(alive.address) == (2 if is_given else len(gone))


async def test_another_replica_is_not_used_where_it_is_none_and_is_named(caplog) -> None:
    async with fleet(0.0, 0.0, 0.5) as (own, stranger, busy):
        await own.end()
        expected, stranger.said = own.said, replace(stranger.said, **OTHER_TARGET)
        with caplog.at_level(logging.WARNING):
            access, connection = await dial_replica(access_to(own, stranger, busy), expected)
        await connection.close()
        assert access.address == busy.address
        assert (
            f"{stranger.address} is not used in place of {own.address}: the target demo (f) is not demo (g); to use"
            in caplog.text
        )


async def test_a_server_that_is_asked_again_and_again_leaves_no_connection_behind(monkeypatch) -> None:
    for pause in ("_HEAD_START_S", "_ROUND_PAUSE_S"):
        monkeypatch.setattr(replicas, pause, 0.01)
    opened, connect = list[Connection](), Access.connect
    closed, close = list[Connection](), Connection.close

    def noted(access: Access) -> Connection:
        opened.append(connect(access))
        return opened[-1]

    async def closing(connection: Connection) -> None:
        closed.append(connection)
        await close(connection)

    monkeypatch.setattr(Access, "connect", noted)
    monkeypatch.setattr(Connection, "close", closing)
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
    async with silent, fleet(0.5) as (stranger,):
        own = Address("127.0.0.1", silent.sockets[0].getsockname()[1])
        expected = replace(SAID, **OTHER_TARGET)
        dialling = asyncio.create_task(dial_replica(Access(own, others=(stranger.address,)), expected))
        while stranger.asked < 4:
            await asyncio.sleep(0.01)
        dialling.cancel()
        await asyncio.gather(dialling, return_exceptions=True)
    assert set(opened) == set(closed)


async def test_without_any_replica_dialling_fails_as_that_of_one_server() -> None:
    async with fleet(0.0, 0.5) as servers:
        for server in servers:
            await server.end()
        with pytest.raises(LinkError, match="cannot be reached"):
            await dial_replica(access_to(*servers), SAID)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"context": 200}, "one takes [24]00 tokens in a sequence and the other [24]00"),
        ({"numerics": "bfloat16 int8"}, "one computes in bfloat16( int8)? and the other in bfloat16( int8)?"),
    ],
)
async def test_servers_that_serve_one_target_otherwise_are_no_replicas(change, sentence: str) -> None:
    async with fleet(0.0, 0.5, listed=False) as (first, other):
        first.said = replace(first.said, numerics="bfloat16")
        other.said = replace(first.said, **change)
        with pytest.raises(MisuseError, match=f"are no replicas: {sentence}; name one of them") as refused:
            await chosen(access_to(first, other))
        assert "--cache-tokens, --dtype, --quantize and --batch-invariant or --fast" in str(refused.value)
        assert await choose_other(access_to(first, other), first.said, ()) is None


async def test_a_server_of_a_release_that_does_not_say_how_it_computes_is_a_replica() -> None:
    async with fleet(0.5, 0.0, listed=False) as (first, older):
        first.said = replace(first.said, numerics="bfloat16")
        assert (await chosen(access_to(first, older))).address == older.address
