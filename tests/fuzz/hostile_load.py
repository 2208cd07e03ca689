"""Every kind of hostile client at once against a server, each over and over, in a process of its own.

`python -m tests.fuzz.hostile_load ADDRESS TOKEN SEED` runs until it is killed. It writes its counts to stdout, one JSON
object a second.
"""

import asyncio
import json
import os
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from random import Random
from uuid import uuid4

import grpc

from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import OutriderError
from common.protocol.messages import Ack, Finished, Settings
from common.rpc.channel import CLIENT_OPTIONS
from common.rpc.credentials import bearer_metadata
from common.rpc.description import ServerDescription
from common.rpc.stub import GenerateStream, connect
from tests.fuzz.client_frames import ClientView
from tests.fuzz.wire import WireReport, malformed_stream
from tests.hostile.calls import HOSTILE_CALLS, HostileCall
from tests.hostile.http2 import Connection, connected

_CALLS, _CONNECTIONS = 320, 4
_HOLD_SECONDS = 3.0
_SILENT_CONNECTIONS = 100
_LOCKSTEP_SESSIONS, _LOCKSTEP_SECONDS = 8, 2.4
_FRAMES_A_SECOND = 500
_NICE = 5  # lower priority than the honest clients, which are measured, where cores are few


class HostileLoad:
    def __init__(self, address: str, token: str, said: ServerDescription, rng: Random):
        self.counts = Counter[str]()
        self._address, self._token, self._said, self._rng = address, token, said, rng
        self._metadata = bearer_metadata(token)

    async def go_on(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number, call in enumerate(HOSTILE_CALLS.values()):
                tasks.create_task(self._again(lambda call=call: self._hold(call), number))  # type: ignore[misc]
            for kind in (self._say_nothing, self._hold_running_places, self._speak_after_the_end, self._mutate):
                tasks.create_task(self._again(kind, 0.0))
            tasks.create_task(self._print_counts())

    async def _again(self, kind: Callable[[], Awaitable[None]], wait: float) -> None:
        await asyncio.sleep(wait)
        while True:
            with suppress(OutriderError, OSError, grpc.RpcError, asyncio.InvalidStateError):
                await kind()
            await asyncio.sleep(self._rng.random())

    async def _print_counts(self) -> None:
        while True:
            sys.stdout.write(json.dumps(self.counts) + "\n")
            sys.stdout.flush()
            await asyncio.sleep(1)

    async def _hold(self, call: HostileCall) -> None:
        """Hundreds of calls of one kind, from clients with and without a token."""
        metadata = self._metadata if self._rng.random() < 0.5 else ()
        async with AsyncExitStack() as stack:
            makers = [connected(self._address, call.window, metadata=metadata) for _ in range(_CONNECTIONS)]
            connections = [await stack.enter_async_context(maker) for maker in makers]

            async def begin(connection: Connection) -> None:
                for _ in range(_CALLS // _CONNECTIONS):
                    await call.begin(connection, self._said.bundles[0])
                    self.counts["calls that are never ended"] += 1

            with suppress(TimeoutError):
                async with asyncio.timeout(4 * _HOLD_SECONDS):
                    await asyncio.gather(*map(begin, connections))
            await asyncio.sleep(_HOLD_SECONDS)

    async def _say_nothing(self) -> None:
        host, _, port = self._address.rpartition(":")
        half_closed = []
        for _ in range(_SILENT_CONNECTIONS):
            connection = socket.socket()
            connection.setblocking(False)
            with suppress(BlockingIOError):
                connection.connect((host, int(port)))
            half_closed.append(connection)
        self.counts["connections that say nothing"] += len(half_closed)
        await asyncio.sleep(_HOLD_SECONDS)
        for connection in half_closed:
            connection.close()

    async def _hold_running_places(self) -> None:
        """Answers that wait for their client, which sends just enough to keep them running."""
        async with connect(self._address, token=self._token) as connection:

            async def hold() -> None:
                session, stream = self._session(), connection.generate()
                stream.send(session.open(self._prompt(), Settings(1000, idle="lockstep")))
                self.counts["answers that are held up"] += 1
                for _ in range(8):
                    await asyncio.sleep(_LOCKSTEP_SECONDS)
                    stream.send(Ack(0, 1))
                stream.close()

            await asyncio.gather(*(hold() for _ in range(_LOCKSTEP_SESSIONS)))

    async def _speak_after_the_end(self) -> None:
        async with connect(self._address, token=self._token) as connection:
            session, stream = self._session(), connection.generate()
            prompt = self._prompt()
            stream.send(session.open(prompt, Settings(1)))
            await self._finished(stream)
            for _ in range(4 * _FRAMES_A_SECOND):
                stream.send(Ack(0, len(prompt)))
                self.counts["frames to finished sessions"] += 1
                await asyncio.sleep(1 / _FRAMES_A_SECOND)

    async def _finished(self, stream: GenerateStream) -> None:
        async with asyncio.timeout(_HOLD_SECONDS):
            while not isinstance(await stream.receive(), Finished | None):
                pass

    async def _mutate(self) -> None:
        said, report = self._said, WireReport()
        async with grpc.aio.insecure_channel(self._address, options=CLIENT_OPTIONS) as channel:
            for _ in range(50):
                view = ClientView(
                    f"{self._rng.getrandbits(64):016x}", said.fingerprint, said.vocab_size, said.context, "moa"
                )
                await malformed_stream(channel, view, self._rng, report, self._metadata)
                self.counts["malformed frames"] += report.frames
                report.frames = 0
                await asyncio.sleep(0.02)

    def _session(self) -> ClientSession:
        said = self._said
        return ClientSession(uuid4().hex, Limits(said.fingerprint, said.vocab_size, said.context, said.max_nodes))

    def _prompt(self) -> list[int]:
        return [self._rng.randrange(1, self._said.vocab_size) for _ in range(16)]


async def _main(address: str, token: str, seed: str) -> None:
    os.nice(_NICE)
    async with connect(address, token=token) as connection:
        said = await connection.describe()
    await HostileLoad(address, token, said, Random(seed)).go_on()


if __name__ == "__main__":
    # A real attacker runs on other machines, so this process must not slow the server down.
    os.nice(19)
    asyncio.run(_main(*sys.argv[1:4]))
