"""The client's side of a virtual run: the real conversation over a virtual stream, with drafters loaded once a draft.

May know how a client is put together. It may not know servers beyond their offer, nor what is measured.
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from client.answering import AnswerOptions
from client.conversation import Answer, Conversation, Watch
from client.demo.asking import unwatched
from client.drafting.loop import DraftingLoop
from client.link.offline import Offline
from client.link.reconnecting_stream import Dial, Stream
from common.drafters.drafter import Drafter
from common.drafters.load import DrafterConfig, DrafterFactory, load_draft_model
from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from netem.links.profile import LinkProfile
from netem.links.way import both_ways
from netem.virtual.clock import VirtualWorker
from netem.virtual.datacenter import Datacenter
from netem.virtual.tcp import connect
from netem.virtual.wire import VirtualStream
from server.engine import Engine


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft as a client runs it: the name under which the server offers it, and its depth."""

    name: str
    layers: int = 0
    state: str = "int8"


class Laptops:
    """Makes drafters for any number of clients on weights that are loaded once."""

    def __init__(self, datacenter: Datacenter):
        self._offer = datacenter.offer
        self._loaded: dict[Draft, DrafterFactory] = {}

    def drafter(self, draft: Draft) -> Drafter:
        """Raises MisuseError where the server does not offer the draft."""
        if draft not in self._loaded:
            own = next((each for each in self._offer.draft_models if each.name == draft.name), None)
            if own is None:
                raise MisuseError(f"there is no draft '{draft.name}' beside the target; give a folder that holds it")
            card = self._offer.card
            request = StateRequest(draft.name, draft.layers, draft.state)
            site = DrafterConfig(own.directory, "cpu", "float32", card.context, card.vocab_size, request, tail=own.tail)
            self._loaded[draft] = load_draft_model(own.kind.name, site)
        return self._loaded[draft]()


async def ask(
    engine: Engine,
    datacenter: Datacenter,
    profile: LinkProfile,
    tokens: Sequence[int],
    options: AnswerOptions,
    drafter: Drafter | None,
    watch: Watch = unwatched,
) -> Answer:
    """The answer to a prompt on a session and a connection of its own."""
    stream = VirtualStream(engine, *connect(*both_ways(profile)))
    conversation = converse(engine, datacenter, stream, options, drafter)
    try:
        return await conversation.answer(tokens, options.settings(), watch)
    finally:
        conversation.close()
        stream.close()


def converse(
    engine: Engine,
    datacenter: Datacenter,
    stream: Stream,
    options: AnswerOptions,
    drafter: Drafter | None,
    dial: Dial | None = None,
    offline: Offline = Offline(),  # noqa: B008
) -> Conversation:
    """A session of its own; `dial` and `offline` as a conversation has them."""
    card, terms = datacenter.offer.card, engine.sessions.terms
    limits = Limits(card.fingerprint, card.vocab_size, terms.context, terms.max_nodes)
    wanted = drafter.state if drafter is not None and options.policy.drafts else None
    session = ClientSession(uuid.uuid4().hex, limits, wanted)
    loop = DraftingLoop(session, options.policy, has_drafter=drafter is not None, ends=card.end_tokens)
    clock = asyncio.get_running_loop().time
    name = "none" if drafter is None else drafter.kind
    return Conversation(
        stream, loop, drafter, name, options.pace, options.policy.tree, clock, VirtualWorker, dial, offline
    )
