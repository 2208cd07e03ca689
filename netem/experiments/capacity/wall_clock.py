"""The speed of clients in real time, to compare the simulation with: real engines, gRPC over loopback, threads that
sleep for the stated costs, recorded acceptance in place of the models.

The costs are made so many times longer that the processor is not what limits a run. May know how a client and a server
are assembled. It may not know fleets or tables.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from statistics import fmean

import grpc

from client.answer import Answer
from client.conversation import Conversation
from client.demo.asking import ignore_tokens
from client.drafting.loop import DraftingLoop
from client.link.shared_connection import ConversationStreams, SharedConnection
from client.link.stream import Access
from common.address import Address
from common.protocol.client_session import ClientSession, Limits
from common.protocol.idle import IDLE_POLICIES
from common.protocol.messages import PROTOCOL_VERSION
from common.protocol.rules import RULES
from common.rpc.channel import SERVER_OPTIONS
from common.rpc.description import ServerDescription
from common.rpc.service import register
from netem.experiments.capacity.replay import Replay, ReplayDrafter
from netem.experiments.capacity.replica import (
    ReplicaSystem,
    replay_options,
    replay_server,
    replay_terms,
    tokens_in_turn,
)
from netem.experiments.speed.runs import whole
from netem.virtual.server import running
from server.engine import Engine
from server.models.bundles import BundleStore
from server.servicer import Servicer
from server.sessions.counters import Counters
from server.sessions.sessions import Sessions

_TIMER_S = 0.2


@dataclass(frozen=True, slots=True)
class TimedRun:
    """counters: of each replica. reconnects: streams that a client gave up, because the processor was elsewhere for so
    long that no probe was answered. late_s: by how much a timer came late in the mean, for the same reason."""

    tokens_per_client_second: float
    counters: Sequence[Counters]
    reconnects: int
    late_s: float

    @property
    def overrun_share(self) -> float:
        """Of passes, that took longer than their stated cost."""
        return sum(each.overrun_passes for each in self.counters) / max(1, sum(each.passes for each in self.counters))


async def time_in_turn(
    replay: Replay, system: ReplicaSystem, clients: int, answers: int, replicas: int, apart_s: float = 0.0
) -> TimedRun:
    """As `answer_in_turn`, in real time. Raises OutriderError if an answer breaks off or its drafter fails."""
    async with AsyncExitStack() as stack:
        reconnects = 0
        served = [await stack.enter_async_context(serving_replay(replay, system)) for _ in range(replicas)]

        async def ask_one(client: int, turn: int, answer: int) -> Answer:
            nonlocal reconnects
            _, access = served[client % replicas]
            async with access.connect() as connection, SharedConnection(access, connection) as shared:
                answered = await ask_over(shared, replay, system, f"{client:08x}{turn:08x}", answer)
            reconnects += answered.stats.reconnects
            return answered

        late_s = list[float]()
        watching = asyncio.create_task(_watch_timers(late_s))
        try:
            speed = await tokens_in_turn(ask_one, clients, answers, apart_s)
        finally:
            watching.cancel()
        return TimedRun(speed, [engine.counters for engine, _ in served], reconnects, fmean(late_s or [0.0]))


async def _watch_timers(late_s: list[float]) -> None:
    """Adds by how much each timer came late. Runs until it is cancelled."""
    clock = asyncio.get_running_loop().time
    while True:
        due_s = clock() + _TIMER_S
        await asyncio.sleep(_TIMER_S)
        late_s.append(clock() - due_s)


@dataclass(frozen=True)
class _Served:
    engine: Engine
    description: ServerDescription


@asynccontextmanager
async def serving_replay(replay: Replay, system: ReplicaSystem) -> AsyncIterator[tuple[Engine, Access]]:
    """A server on a free port of this machine until the block ends."""
    target, terms, limits, pace, capacity, factory = replay_server(replay, system)
    engine = Engine(Sessions(terms, limits, capacity, share_prefixes="never"), target, pace, None, factory)
    size = (terms.vocab_size, terms.context, terms.max_nodes, tuple(terms.end_tokens))
    names = (tuple(RULES), tuple(IDLE_POLICIES), ())
    description = ServerDescription(PROTOCOL_VERSION, "0", "replay", terms.fingerprint, *size, *names)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    register(Servicer([_Served(engine, description)], BundleStore([])), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with running(engine):
            yield engine, Access(Address("127.0.0.1", port))
    finally:
        await server.stop(0)


async def ask_over(
    shared: SharedConnection, replay: Replay, system: ReplicaSystem, session_id: str, number: int
) -> Answer:
    """Recorded answer `number`. Raises OutriderError where it breaks off or its drafter fails."""
    terms, options = replay_terms(replay), replay_options(replay, system, number)
    drafter = ReplayDrafter(replay) if system.policy.drafts else None
    session = ClientSession(session_id, Limits(terms.fingerprint, terms.vocab_size, terms.context, terms.max_nodes))
    loop = DraftingLoop(session, options.policy, has_drafter=drafter is not None, ends=terms.end_tokens)
    streams = ConversationStreams(shared, session_id)
    conversation = Conversation(
        streams.open(), loop, drafter, "replay", options.pace, options.policy.tree, dial=streams.dial
    )
    try:
        return whole(await conversation.answer(replay.prompt(number), options.settings(), ignore_tokens))
    finally:
        conversation.close()
