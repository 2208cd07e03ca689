"""Servers whose target is no network, and their clients, on the virtual clock: the real conversation, drafting loop,
server sessions and engine.

May know how client and server are assembled. It may not know what is measured.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from client.answer import Answer, TokenListener
from client.answering import AnswerOptions
from client.conversation import Conversation
from client.demo.asking import ignore_tokens
from client.drafting.loop import DraftingLoop
from client.link.offline import OfflineOptions
from client.link.reconnecting_stream import Dial
from client.link.stream import Stream
from common.drafters.drafter import Drafter
from common.pacing import WorkerFactory
from common.protocol.client_session import ClientSession, Limits
from common.protocol.terms import Terms
from netem.links.profile import LinkProfile
from netem.links.way import both_ways
from netem.virtual.clock import VirtualWorker
from netem.virtual.server import running
from netem.virtual.stream import VirtualStream
from netem.virtual.tcp import connect
from server.engine import Engine, Verifier
from server.options import Pace
from server.passes.server_drafting import ServerDrafterFactory
from server.sessions.admission import ServingLimits
from server.sessions.sessions import Sessions


@asynccontextmanager
async def serving(
    target: Verifier,
    terms: Terms,
    limits: ServingLimits,
    pace: Pace,
    capacity: int,
    drafter_factory: ServerDrafterFactory | None = None,
) -> AsyncIterator[Engine]:
    """Runs an engine with K/V for `capacity` tokens on the running virtual loop until the block ends."""
    clock = asyncio.get_running_loop().time
    sessions = Sessions(terms, limits, capacity, share_prefixes="never")
    engine = Engine(sessions, target, pace, None, drafter_factory, clock, VirtualWorker)
    async with running(engine):
        yield engine


async def ask(
    engine: Engine,
    profile: LinkProfile,
    session_id: str,
    prompt: Sequence[int],
    options: AnswerOptions,
    drafter: Drafter | None,
    watch: TokenListener = ignore_tokens,
    make_worker: WorkerFactory = VirtualWorker,
) -> Answer:
    """The answer to a prompt, in a new session over a new connection that begins its own link. make_worker: of what
    drafts."""
    stream = VirtualStream(engine, *connect(*both_ways(profile)))
    conversation = converse(engine.sessions.terms, stream, session_id, options, drafter, make_worker=make_worker)
    try:
        return await conversation.answer(prompt, options.settings(), watch)
    finally:
        conversation.close()
        stream.close()


def converse(
    terms: Terms,
    stream: Stream,
    session_id: str,
    options: AnswerOptions,
    drafter: Drafter | None,
    dial: Dial | None = None,
    offline: OfflineOptions = OfflineOptions(),  # noqa: B008
    make_worker: WorkerFactory = VirtualWorker,
) -> Conversation:
    """A conversation in a new session. dial, offline, make_worker: as `Conversation` takes them."""
    policy = options.policy
    session = ClientSession(session_id, Limits(terms.fingerprint, terms.vocab_size, terms.context, terms.max_nodes))
    loop = DraftingLoop(session, policy, has_drafter=drafter is not None, ends=terms.end_tokens)
    name, clock = "none" if drafter is None else drafter.kind, asyncio.get_running_loop().time
    return Conversation(stream, loop, drafter, name, options.pace, policy.tree, clock, make_worker, dial, offline)
