"""The clients of virtual runs: the real conversation over a virtual stream, with draft models that are loaded once.

May know how a client is assembled. It may not know servers beyond their offer, nor what is measured.
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from client.answer import Answer, TokenListener
from client.answering import AnswerOptions
from client.conversation import Conversation
from client.demo.asking import ignore_tokens
from client.drafting.loop import DraftingLoop
from client.link.offline import OfflineOptions
from client.link.reconnecting_stream import Dial
from client.link.stream import Stream
from common.draft_models.state_codec import read_state_dtype
from common.drafters.drafter import Drafter
from common.drafters.load import DrafterConfig, DrafterFactory, load_draft_model
from common.protocol.client_session import ClientSession, Limits
from common.protocol.draft_state import DEFAULT_DTYPE
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from netem.links.profile import LinkProfile
from netem.links.way import both_ways
from netem.virtual.clock import VirtualWorker
from netem.virtual.server import VirtualServer
from netem.virtual.stream import VirtualStream
from netem.virtual.tcp import connect
from server.engine import Engine


@dataclass(frozen=True, slots=True)
class DraftSetup:
    """A draft model as a client runs it.

    name: the one under which the server offers it. layers: N, the target's last layers that it runs.
    """

    name: str
    layers: int = 0

    @property
    def label(self) -> str:
        """With N where drafts of that name may run layers."""
        return f"{self.name}, N = {self.layers}" if self.name == "moa" else self.name


class LoadedDrafts:
    """Makes drafters for any number of clients; the weights of each draft model are loaded once."""

    def __init__(self, server: VirtualServer):
        self._offer = server.offer
        self._loaded: dict[tuple[DraftSetup, ...], DrafterFactory] = {}

    def drafter(self, draft: DraftSetup, beside: tuple[DraftSetup, ...] = ()) -> Drafter:
        """A new drafter, whose tree those `beside` share. Raises MisuseError where the server does not offer one."""
        merged = (draft, *beside)
        if merged not in self._loaded:
            (kind, site), *others = map(self._site, merged)
            self._loaded[merged] = load_draft_model(kind, site, others)
        return self._loaded[merged]()

    def _site(self, draft: DraftSetup) -> tuple[str, DrafterConfig]:
        """What a draft is loaded from, and its kind."""
        own = next((each for each in self._offer.draft_models if each.name == draft.name), None)
        if own is None:
            raise MisuseError(f"there is no draft '{draft.name}' beside the target; give a folder that holds it")
        card = self._offer.card
        dtype = read_state_dtype(own.directory) if own.kind.state else DEFAULT_DTYPE
        request = StateRequest(draft.name, draft.layers, dtype)
        site = DrafterConfig(own.directory, "cpu", "float32", card.context, card.vocab_size, request, tail=own.tail)
        return own.kind.name, site


async def ask(
    engine: Engine,
    server: VirtualServer,
    profile: LinkProfile,
    tokens: Sequence[int],
    options: AnswerOptions,
    drafter: Drafter | None,
    watch: TokenListener = ignore_tokens,
) -> Answer:
    """The answer to a prompt, in a new session over a new connection that begins its own link.

    watch: called with the committed and the provisional tokens whenever they change.
    """
    stream = VirtualStream(engine, *connect(*both_ways(profile)))
    conversation = converse(engine, server, stream, options, drafter)
    try:
        return await conversation.answer(tokens, options.settings(), watch)
    finally:
        conversation.close()
        stream.close()


def converse(
    engine: Engine,
    server: VirtualServer,
    stream: Stream,
    options: AnswerOptions,
    drafter: Drafter | None,
    dial: Dial | None = None,
    offline: OfflineOptions = OfflineOptions(),  # noqa: B008
) -> Conversation:
    """A conversation in a new session. dial, offline: as `Conversation` takes them."""
    card, terms = server.offer.card, engine.sessions.terms
    limits = Limits(card.fingerprint, card.vocab_size, terms.context, terms.max_nodes, terms.constrain)
    wanted = drafter.state if drafter is not None and options.policy.drafts else None
    session = ClientSession(uuid.uuid4().hex, limits, wanted)
    loop = DraftingLoop(session, options.policy, has_drafter=drafter is not None, ends=card.end_tokens)
    clock = asyncio.get_running_loop().time
    name = "none" if drafter is None else drafter.kind
    return Conversation(
        stream, loop, drafter, name, options.pace, options.policy.tree, clock, VirtualWorker, dial, offline
    )
