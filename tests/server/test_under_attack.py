"""A real `outriderd` under requests for more memory than it has: what it holds stays below the limit that it states."""

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest

from common.rpc.stub import connect
from tests.daemon import outriderd, outriderd_saying, stated_bytes
from tests.hostile.calls import HOSTILE_CALLS
from tests.hostile.http2 import Connection, connected

_CALLS = 320
_CONNECTIONS = 4
_STANDING = 200  # connections that send nothing more
_LARGEST = (
    "a watcher of a service with a name of 0.9 MB",
    "a stream whose Open does not end",
    "a download that is not read",
)


async def test_clients_without_a_token_hold_no_more_than_is_stated(target: Path) -> None:
    """All kinds at once; two of them alone once took 1.4 GB."""
    with outriderd_saying("--target", str(target), "--threads", "1") as (process, address, said):
        server = psutil.Process(process.pid)
        async with connect(address) as connection:
            bundle = (await connection.describe()).bundles[0]
        before, most = server.memory_info().rss, 0
        async with AsyncExitStack() as stack:

            async def begin(kind: str) -> None:
                async def one(connection: Connection) -> None:
                    for _ in range(_CALLS // _CONNECTIONS):
                        await HOSTILE_CALLS[kind].begin(connection, bundle)

                makers = [connected(address, HOSTILE_CALLS[kind].window) for _ in range(_CONNECTIONS)]
                await asyncio.gather(*[one(await stack.enter_async_context(maker)) for maker in makers])

            for _ in range(_STANDING):
                await stack.enter_async_context(connected(address))
            for kind in _LARGEST:
                attack = asyncio.create_task(begin(kind))
                while not attack.done():
                    most = max(most, server.memory_info().rss)
                    await asyncio.sleep(0.05)
                await attack
            async with connect(address) as connection:
                assert await connection.describe(timeout=30)
    assert most - before < stated_bytes(said)


@pytest.mark.parametrize("kind", ["a watcher", "a watcher that reads nothing", "a download that is not read"])
async def test_who_holds_a_call_holds_up_no_stop(kind: str, target: Path) -> None:
    call = HOSTILE_CALLS[kind]
    with outriderd("--target", str(target), "--threads", "1", "--drain-seconds", "300") as (process, address):
        async with connect(address) as connection, connected(address, call.window) as hostile:
            await call.begin(hostile, (await connection.describe()).bundles[0])
            await connection.check()
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 60) == 0
