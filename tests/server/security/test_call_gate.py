"""Calls of all kinds that never end, hundreds at a time: other clients are served, and nothing is left behind."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.bundle import BundleManifest
from common.protocol.messages import Constraint, Opened, Pong, Settings
from common.rpc.convert import frame_from_server
from common.rpc.description import FileRequest
from common.rpc.stub import connect
from server import assembly
from server.constraint_compiler import ConstraintCompiler
from server.security.call_gate import CallGate, _StallTimedContext
from server.security.call_pools import LIMITS, CallKind, CallPools, CallRefusal, CallSlot
from server.servicer import STANDS
from tests.hostile.calls import HOSTILE_CALLS, HostileCall
from tests.hostile.http2 import Connection, connected
from tests.server.harness import Running, new_session, options_for, running, with_access

_CALLS = 320
_CONNECTIONS = 4
_SOON = 0.2


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> CallPools:
    """The call pools of the server that is started next."""
    made = CallPools()
    monkeypatch.setattr(assembly, "CallPools", lambda **_: made)
    return made


async def offered(address: str) -> BundleManifest:
    async with connect(address) as connection:
        return (await connection.describe()).bundles[0]


@asynccontextmanager
async def under(call: HostileCall, server: Running, calls: int = _CALLS) -> AsyncIterator[list[Connection]]:
    """Keeps this many of them open, over a few connections."""
    bundle = await offered(server.address)
    async with AsyncExitStack() as stack:
        makers = [connected(server.address, call.window) for _ in range(_CONNECTIONS)]
        connections = [await stack.enter_async_context(maker) for maker in makers]

        async def begin(connection: Connection) -> None:
            for _ in range(calls // _CONNECTIONS):
                await call.begin(connection, bundle)

        async with asyncio.timeout(60):
            await asyncio.gather(*map(begin, connections))
        yield connections


async def is_served(address: str, token: str | None = None) -> bool:
    """A whole visit: a question, a file, a health check, a stream that opens a session."""
    async with connect(address, token=token) as connection:
        bundle = (await connection.describe(timeout=10)).bundles[0]
        file = min(bundle.files, key=lambda each: each.size)
        parts = [part async for part in connection.fetch(FileRequest(bundle.id, file.path, 0))]
        session, stream = await new_session(connection), connection.generate()
        stream.send(session.open([5, 6], Settings(4)))
        opened = await stream.receive()
        stream.close()
        return sum(map(len, parts)) == file.size and isinstance(opened, Opened) and await connection.check()


@pytest.mark.parametrize("kind", HOSTILE_CALLS)
async def test_an_honest_client_gets_in_beside_hundreds_of(kind: str, target: Path, pools: CallPools) -> None:
    async with running(options_for(target)) as server:
        async with under(HOSTILE_CALLS[kind], server):
            async with asyncio.timeout(60):
                while sum(pools.refused.values()) + sum(map(pools.held, CallKind)) < _CALLS:
                    await asyncio.sleep(0.01)
                assert await is_served(server.address)
            assert all(pools.held(each) <= LIMITS[each].calls for each in CallKind)
        await _all_gone(pools)


async def test_clients_without_a_token_get_no_place_where_a_token_is_asked_for(
    target: Path, pools: CallPools, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("s3cret")
    async with running(with_access(options_for(target), token_file=path)) as server:
        async with connected(server.address, 0) as connection:
            for method in ("Generate", "Describe", "FetchBundle", "Nothing"):
                for _ in range(_CALLS // 4):
                    await connection.call(f"/outrider.v1.Outrider/{method}")
                while connection.standing:
                    await asyncio.sleep(0.01)
            assert await is_served(server.address, "s3cret")
        assert pools.refused[CallKind.OPENING, CallRefusal.TOKEN] == _CALLS // 4
        await _all_gone(pools)


@pytest.mark.parametrize("method", ["Check", "List"])
async def test_health_checks_have_a_pool_of_their_own(method: str, target: Path, pools: CallPools) -> None:
    larger = bytes(LIMITS[CallKind.HEALTH_CHECK].request_bytes + 1)
    async with running(options_for(target)) as server, connected(server.address) as connection:
        await connection.say(await connection.call(f"/grpc.health.v1.Health/{method}"), larger, last=True)
        async with asyncio.timeout(60):
            while connection.standing:
                await asyncio.sleep(0.01)
    assert pools.refused == {(CallKind.HEALTH_CHECK, CallRefusal.SIZE): 1}


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Mapping[CallKind, object]:
    """A server with short time-outs."""
    limits = {kind: replace(each, request_seconds=_SOON, seconds=_SOON) for kind, each in LIMITS.items()}
    made = CallPools(limits)
    monkeypatch.setattr(assembly, "CallPools", lambda **_: made)
    monkeypatch.setattr(assembly, "CallGate", lambda tokens, pools: CallGate(tokens, pools, _SOON))
    return limits


@pytest.mark.parametrize("kind", HOSTILE_CALLS)
async def test_who_lets_the_server_wait_is_left(kind: str, target: Path, hurried: object) -> None:
    """Even if the client cannot be told, because it reads nothing: the call is gone on both sides."""
    async with running(options_for(target)) as server:
        async with under(HOSTILE_CALLS[kind], server, calls=8) as connections, asyncio.timeout(60):
            while any(connection.standing for connection in connections):
                await asyncio.sleep(0.1)
                for connection in connections:
                    connection.ping()
        async with asyncio.timeout(60):
            while _calls_at_work():
                await asyncio.sleep(0.02)


def _calls_at_work() -> int:
    """The tasks that gRPC runs for calls."""
    return sum("schedule_rpc" in str(task.get_coro()) for task in asyncio.all_tasks())


async def test_a_stream_is_opening_until_its_constraint_is_compiled(
    target: Path, pools: CallPools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a client could have any number of them wait for that."""
    goes_on, compiling = asyncio.Event(), asyncio.Event()
    turn_of = ConstraintCompiler.turn_of

    @asynccontextmanager
    async def later(*asked: Any) -> AsyncIterator[Any]:
        compiling.set()
        await goes_on.wait()
        async with turn_of(*asked) as turn:
            yield turn

    monkeypatch.setattr(ConstraintCompiler, "turn_of", later)
    async with running(options_for(target)) as server, connect(server.address) as connection:
        session, stream = await new_session(connection), connection.generate()
        stream.send(session.open([5, 6], Settings(4, constraint=Constraint("regex", "a+"))))
        async with asyncio.timeout(60):
            await compiling.wait()
            await asyncio.sleep(_SOON)
            assert pools.held(CallKind.OPENING) == 1
            goes_on.set()
            while isinstance(message := await stream.receive(), Pong):
                pass
            assert isinstance(message, Opened)
            while pools.held(CallKind.OPENING):
                await asyncio.sleep(0.01)
        stream.close()


async def _all_gone(pools: CallPools) -> None:
    async with asyncio.timeout(60):
        while any(pools.held(kind) for kind in CallKind):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(("kind", "moved"), [(CallKind.FETCH, 2), (CallKind.OPENING, 0)])
async def test_what_a_stream_hears_while_it_opens_keeps_no_other_call_out(kind: CallKind, moved: int) -> None:
    """A call that transfers much is displaced last: so are those that fetch, and not those whose constraints wait."""

    class Written:
        async def write(self, message: Any) -> None: ...

    context = _StallTimedContext(Written(), 60.0)
    context.slot = CallSlot(kind, "a peer", "a client", 0.0, lambda _: None)
    await context.write(frame_from_server(STANDS))
    assert context.slot.moved_bytes == moved
