"""The speed of clients in real time behind emulated links, with recorded acceptance in place of the models: a process
that serves, one for the link of each client, and all clients in this process.

May know how a client, a server and a link are assembled. It may not know tables or the virtual clock.
"""

import asyncio
import multiprocessing
import signal
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from client.answer import Answer
from client.demo.children import running
from client.link.shared_connection import SharedConnection
from client.link.stream import Access
from common.address import parse_destination
from common.protocol.errors import OutriderError
from netem.experiments.capacity.acceptance import Recording
from netem.experiments.capacity.replay import Replay
from netem.experiments.capacity.replica import ReplicaSystem
from netem.experiments.capacity.wall_clock import ask_over, serving_replay

_END_S = 10.0


class ReplayProcess:
    """A server in another process. address: HOST:PORT."""

    def __init__(self, address: str, told: Connection):
        self.address = address
        self._told = told

    async def counters(self) -> dict[str, Any]:
        """Of the server's engine, until now. Raises OutriderError where it has ended."""
        with _ended_is_told():
            self._told.send(None)
            return dict(await asyncio.to_thread(self._told.recv))


@asynccontextmanager
async def replay_process(recording: Recording, system: ReplicaSystem) -> AsyncIterator[ReplayProcess]:
    """Runs one until the block ends. Raises OutriderError where it does not start."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=_serve, args=(recording, system, its), daemon=True)
    process.start()
    its.close()
    try:
        with _ended_is_told():
            address = await asyncio.to_thread(ours.recv)
        yield ReplayProcess(address, ours)
    finally:
        ours.close()
        await asyncio.to_thread(process.join, _END_S)
        process.kill()


@contextmanager
def _ended_is_told() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError) as error:
        raise OutriderError("the process that serves recorded answers has ended") from error


def _serve(recording: Recording, system: ReplicaSystem, told: Connection) -> None:
    # A terminal sends Ctrl-C to both; the other process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def main() -> None:
        async with serving_replay(Replay(recording), system) as (engine, access):
            told.send(str(access.address))
            with suppress(EOFError):
                while True:
                    await asyncio.to_thread(told.recv)
                    told.send(engine.counters.summary())

    asyncio.run(main())


@dataclass(frozen=True, slots=True)
class LinkedClients:
    """One system's server, and the connections of its clients across their links."""

    server: ReplayProcess
    replay: Replay
    system: ReplicaSystem
    connections: Sequence[SharedConnection]

    async def play(self, each: int) -> list[Answer]:
        """`each` answers of every client, one after the other: of client c of n the recorded ones c, c + n, c + 2n and
        so on."""
        count = len(self.connections)

        async def attend(client: int, shared: SharedConnection) -> list[Answer]:
            return [
                await ask_over(shared, self.replay, self.system, uuid.uuid4().hex, number)
                for number in range(client, each * count, count)
            ]

        attended = await asyncio.gather(*(attend(*client) for client in enumerate(self.connections)))
        return [answer for answers in attended for answer in answers]


@asynccontextmanager
async def linked_clients(
    recording: Recording, system: ReplicaSystem, profile: str, clients: int, backend: str = "tun"
) -> AsyncIterator[LinkedClients]:
    """Runs a server, and so many clients across a link each, until the block ends. profile: the name of a link profile;
    backend: what emulates it. Raises OutriderError where a process does not start or the link cannot be emulated."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(replay_process(recording, system))
        proxy = ("proxy", profile, "--to", server.address, "--backend", backend)
        links = [await stack.enter_async_context(running("outrider-lab", *proxy)) for _ in range(clients)]
        connections = []
        for link in links:
            access = Access(parse_destination(await link.ready()))
            connection = await stack.enter_async_context(access.connect())
            connections.append(await stack.enter_async_context(SharedConnection(access, connection)))
        yield LinkedClients(server, Replay(recording), system, connections)
