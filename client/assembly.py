"""Puts a client together: a connection, the bundle that fits the server, its tokenizer and conversations.

The only place that knows all the parts; it decides nothing of drafting and shows nothing but a download.
"""

import asyncio
import math
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from client.answering import require_idle, require_rule
from client.cache.bundle_check import check_intact
from client.cache.bundles import bundle_directory, choose_bundle, is_complete
from client.cache.known_servers import recall, remember
from client.cache.tokenizers import tokenizer_of
from client.cache.uses import in_use
from client.chosen_bundles import Download, check_together, each_bundle, fetch_bundle, manifest_of, settled
from client.conversation import Conversation
from client.drafting.draft_imports import begin_imports
from client.drafting.draft_loader import AUTO, DraftChoice, DraftLoader
from client.drafting.loop import DraftingLoop
from client.drafting.policies import Policy
from client.link.offline import OfflineOptions
from client.link.replicas import DESCRIBE_S, Replica, choose_replica, describe, with_list
from client.link.shared_connection import ConversationStreams, SharedConnection, StreamListener, ignore_streams
from client.link.stream import Access
from client.private.draft_only import AnswerBounds
from client.private.router import PrivacyRouter
from client.text import decode
from common.address import Address
from common.bundle import BundleManifest
from common.cache import cache_directory
from common.draft_kinds import STATELESS_KINDS
from common.drafters.drafter import Drafter
from common.programs.native_calls import ended_by_second_interrupt
from common.protocol.client_session import ClientSession, Limits
from common.protocol.constraint import Constrain
from common.rpc.description import ServerDescription
from common.rpc.errors import HungUpError, LinkError
from common.rpc.stub import Connection
from common.sampling.grammar import Grammars

if TYPE_CHECKING:
    from common.drafters.load import DrafterFactory
    from common.models.tokenizer import Tokenizer

_KNOWN_SECONDS = 4.0  # for a server that one can begin without


@dataclass(frozen=True, slots=True)
class Client:
    """A server, its description when it was last reached, and its bundle at hand."""

    access: Access
    connection: Connection
    description: ServerDescription
    manifest: BundleManifest
    bundle: Path
    tokenizer: "Tokenizer"
    constrain: Constrain
    choice: DraftChoice
    round_trip: float  # seconds, of a call on a connection that stands; infinite if the server was not reached
    router_connection: SharedConnection  # of the conversations of `load_routers`
    hung_up_by: str = ""  # why it was not reached, if it is there
    others: tuple[tuple[BundleManifest, Path], ...] = ()  # bundles of drafts beside this one, and of one that stands in

    @property
    def draft(self) -> str:
        """The names of what drafts, as `--draft` takes them: of draft models, and of kinds that need none."""
        kind = self.choice.kind(self.manifest)
        first = kind if kind in STATELESS_KINDS else self.manifest.draft
        return "+".join((first, *self.choice.other_bundles, *self.choice.beside))

    @property
    def was_reached(self) -> bool:
        return self.round_trip < math.inf

    def require_rule(self, rule: str) -> None:
        """Raises MisuseError if the server does not offer the rule."""
        require_rule(rule, self.description.rules)

    def require_idle(self, idle: str) -> None:
        """Raises MisuseError if the server has no such idle policy; an empty one leaves the choice to it."""
        require_idle(idle, self.description.idle_policies)

    def share_connection(self, listener: StreamListener = ignore_streams) -> SharedConnection:
        """Carries the streams of any number of conversations, on another replica once this one is gone. `listener` is
        called with the address of each stream."""
        return SharedConnection(self.access, self.connection, self.description, listener)

    def load_drafter(self) -> Drafter:
        """A drafter for one conversation. Raises OutriderError if it cannot be loaded."""
        return self.load_draft()()

    def load_draft(self) -> "DrafterFactory":
        """Makes drafters for any number of conversations, on the same weights. Raises OutriderError if these cannot
        be loaded."""
        description = self.description
        loader = DraftLoader(
            self.bundle,
            self.manifest,
            self.choice,
            description.context,
            description.vocab_size,
            self.round_trip,
            self.others,
        )
        return loader.load()

    @asynccontextmanager
    async def converse(
        self,
        policy: Policy,
        drafter: Drafter | None,
        pace: float = 0.0,
        offline: OfflineOptions = OfflineOptions(),  # noqa: B008
        shared_connection: SharedConnection | None = None,
    ) -> AsyncIterator[Conversation]:
        """A new session; drafted levels are paced to `pace` seconds. Its streams are on `shared_connection`, or share
        no connection with those of others."""
        limits = Limits(
            self.description.fingerprint,
            self.description.vocab_size,
            self.description.context,
            self.description.max_nodes,
            self.constrain,
        )
        session = ClientSession(uuid.uuid4().hex, limits, drafter.state if drafter and policy.drafts else None)
        loop = DraftingLoop(session, policy, drafter is not None, self.description.end_tokens)
        async with AsyncExitStack() as stack:
            if shared_connection is None:
                shared_connection = await stack.enter_async_context(self.share_connection())
            streams = await stack.enter_async_context(ConversationStreams(shared_connection, session.id))
            conversation = Conversation(
                streams.open() if self.was_reached or shared_connection.is_renewed else None,
                loop,
                drafter,
                self.draft if drafter is not None else "none",
                pace,
                policy.tree,
                dial=streams.dial,
                offline=offline,
                leave_full=streams.leave_full,
            )
            try:
                yield conversation
            finally:
                await conversation.aclose()

    def privacy_router(self, conversation: Conversation) -> PrivacyRouter:
        """Keeps to this machine what of a conversation is private."""
        ends = frozenset(self.description.end_tokens)
        return PrivacyRouter(
            conversation,
            AnswerBounds(self.description.context, ends, partial(decode, self.tokenizer)),
        )

    def load_routers(self, policy: Policy) -> Callable[[OfflineOptions], AbstractAsyncContextManager[PrivacyRouter]]:
        """Opens conversations on the same weights. Raises OutriderError if these cannot be loaded."""
        make_drafter = self.load_draft() if policy.drafts else None

        @asynccontextmanager
        async def opened(offline: OfflineOptions) -> AsyncIterator[PrivacyRouter]:
            drafter = None if make_drafter is None else make_drafter()
            # Not each on the first connection, which an outage may have left dead.
            converse = self.converse(policy, drafter, offline=offline, shared_connection=self.router_connection)
            async with converse as conversation:
                yield self.privacy_router(conversation)

        return opened


def _begin_imports(known: ServerDescription, draft: str | None) -> asyncio.Future[None] | None:
    """Imports what the draft needs, while the connection is being made; None if the draft is not known."""
    manifest = next((each for each in known.bundles if each.draft == draft), None)
    if manifest is None and draft is None and known.bundles:
        manifest = choose_bundle(known.bundles, None)
    if manifest is None:
        return None
    return begin_imports(manifest.kind)


@asynccontextmanager
async def client_for(
    access: Access, choice: DraftChoice, cache: Path | None, download: Download, *, drafts: bool = True
) -> AsyncIterator[Client]:
    """A client of the server, ready to converse: without it too, if its bundle is at hand. Unless it `drafts`,
    nothing is imported beforehand for a drafter."""
    async with _prepared(access, choice, cache_directory(cache), download, drafts=drafts) as client:
        yield client


@asynccontextmanager
async def clients_for(
    access: Access,
    choice: DraftChoice,
    models: Sequence[str],
    cache: Path | None,
    download: Download,
    *,
    drafts: bool = True,
) -> AsyncIterator[list[Client]]:
    """Clients of these targets of a server, of all that it has if none is named, on one connection. Otherwise as
    `client_for`."""
    async with AsyncExitStack() as stack:
        clients = list[Client]()
        wanted = list(dict.fromkeys(models)) or [""]
        while len(clients) < len(wanted):
            of_model = replace(choice, model=wanted[len(clients)])
            prepared = _prepared(access, of_model, cache_directory(cache), download, drafts=drafts, before=clients)
            clients.append(await stack.enter_async_context(prepared))
            if not models:
                wanted[1:] = clients[0].description.served[1:]
        yield clients


def _remembered(known: ServerDescription | None) -> tuple[Address, ...]:
    return () if known is None else known.replicas


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a client of one target is put together from, by the server or, where it was not reached, by what the cache
    has of it. In `choice` no `auto` is left; `round_trip` and `hung_up_by` are as in `Client`."""

    description: ServerDescription
    choice: DraftChoice
    bundles: Sequence[tuple[BundleManifest, Path]]
    round_trip: float
    hung_up_by: str = ""


async def _from_server(
    replica: Replica, server: Address, choice: DraftChoice, cache: Path, download: Download
) -> _Parts:
    """`server` is the address by which the cache knows it. Raises LinkError if it is lost."""
    connection, description = replica.connection, replica.description
    # The first call has set up the connection, and may have waited for a server that was loading.
    began = time.perf_counter()
    await describe(connection, DESCRIBE_S, choice.model)
    round_trip = time.perf_counter() - began
    check_together(description, choice)
    if choice.draft == AUTO:
        for each in each_bundle(description, choice):
            await fetch_bundle(connection, server, description, each, cache, download)
    choice = await settled(description, choice, round_trip, cache)
    bundles = [
        await fetch_bundle(connection, server, description, each, cache, download)
        for each in each_bundle(description, choice)
    ]
    remember(cache, str(server), description, choice.model)
    return _Parts(description, choice, bundles, round_trip)


async def _from_cache(known: ServerDescription, choice: DraftChoice, cache: Path, error: LinkError) -> _Parts | None:
    """For a server that is `known` but not reached, as `error` says; None unless all bundles are whole."""
    check_together(known, choice)
    choice = await settled(known, choice, math.inf, cache)
    manifests = [manifest_of(known, each, cache) for each in each_bundle(known, choice)]
    if not all(is_complete(cache, manifest) for manifest in manifests):
        return None
    bundles = [(manifest, bundle_directory(cache, manifest)) for manifest in manifests]
    return _Parts(known, choice, bundles, math.inf, str(error) if isinstance(error, HungUpError) else "")


async def _same_replica(before: Sequence[Client], server: Address, seconds: float, model: str) -> Replica:
    """That of the clients made before, as a server of this target. Raises LinkError if it was not reached."""
    if not all(client.was_reached for client in before):
        raise LinkError(f"the server at {server} cannot be reached; try again when it is back")
    first = before[0]
    return Replica(first.access, first.connection, await describe(first.connection, seconds, model))


@asynccontextmanager
async def _prepared(
    access: Access,
    choice: DraftChoice,
    cache: Path,
    download: Download,
    *,
    drafts: bool = True,
    before: Sequence[Client] = (),
) -> AsyncIterator[Client]:
    """A client of one of the server's replicas: that of the clients made `before`, which is not asked again if it was
    not reached. The bundle counts as in use meanwhile."""
    if choice.draft == AUTO and not drafts:
        choice = replace(choice, draft=None)  # nothing is worth timing
    server = access.address
    known = recall(cache, str(server), choice.model)
    imported = None if known is None or not drafts else _begin_imports(known, choice.bundle)
    seconds = DESCRIBE_S if known is None else _KNOWN_SECONDS
    async with AsyncExitStack() as stack:
        connection: Connection | None = None
        if before:
            access, connection = before[0].access, before[0].connection
        try:
            if before:
                replica = await _same_replica(before, server, seconds, choice.model)
            else:
                replica = await choose_replica(access, seconds, choice.model, _remembered(known))
                stack.push_async_callback(replica.connection.close)
                access, connection = replica.access, replica.connection
            if imported is not None:
                await imported  # which would delay what is timed now
            parts = await _from_server(replica, server, choice, cache, download)
        except LinkError as error:
            from_cache = None if known is None else await _from_cache(known, choice, cache, error)
            if from_cache is None:
                raise
            parts = from_cache
        if connection is None:
            access = with_list(access, _remembered(known))
            connection = await stack.enter_async_context(access.connect())
        for manifest, bundle in parts.bundles:
            stack.enter_context(in_use(cache, manifest.id, str(server)))
            await asyncio.to_thread(check_intact, bundle, manifest)
        (manifest, bundle), *others = parts.bundles
        description = parts.description
        with ended_by_second_interrupt():
            tokenizer = tokenizer_of(cache, manifest, bundle)
        yield Client(
            access,
            connection,
            description,
            manifest,
            bundle,
            tokenizer,
            Grammars(tokenizer, description.vocab_size, description.end_tokens),
            parts.choice,
            parts.round_trip,
            await stack.enter_async_context(SharedConnection(access, connection, description)),
            parts.hung_up_by,
            tuple(others),
        )
