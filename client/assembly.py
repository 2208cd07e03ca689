"""Puts a client together: a connection, the bundle that fits the server, its tokenizer and conversations.

The only place that knows all the parts; it decides nothing of drafting and shows nothing but a download.
"""

import asyncio
import math
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from client.answering import require_idle, require_rule
from client.cache.bundle_check import check_intact
from client.cache.bundles import (
    Advance,
    bundle_directory,
    choose_bundle,
    discard_damaged,
    in_weights,
    is_complete,
    pull,
)
from client.cache.known_servers import recall, remember
from client.cache.level_times import LevelTimes
from client.cache.pins import keep_pin
from client.cache.tokenizers import tokenizer_of
from client.cache.uses import in_use
from client.conversation import Conversation
from client.drafting.draft_imports import begin_imports
from client.drafting.draft_loader import AUTO, DraftChoice, DraftLoader
from client.drafting.loop import DraftingLoop
from client.drafting.policies import Policy
from client.link.offline import OfflineOptions
from client.link.replicas import DESCRIBE_S, choose_replica, describe, with_list
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
from common.drafters.load import check_shared_state
from common.programs.native_calls import ended_by_second_interrupt
from common.protocol.client_session import ClientSession, Limits
from common.protocol.constraint import Constrain
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from common.rpc.description import ServerDescription
from common.rpc.errors import HungUpError, LinkError
from common.rpc.stub import Connection
from common.sampling.grammar import Grammars

if TYPE_CHECKING:
    from common.drafters.load import DrafterFactory
    from common.models.tokenizer import Tokenizer

_KNOWN_SECONDS = 4.0  # for a server that one can begin without

Download = Callable[[BundleManifest], AbstractContextManager[Advance]]
"""Begins to show a download; what it yields is called with the number of bytes in place."""


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
    hitch: str = ""  # why it was not reached, if it is there
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
        """A new session; each drafted level takes at least `pace` seconds. Its streams are on `shared_connection`, or
        share no connection with those of others."""
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


async def fetch_bundle(
    connection: Connection,
    address: Address,
    description: ServerDescription,
    choice: DraftChoice,
    cache: Path,
    download: Download,
    *,
    trust_new: bool = False,
    reread: bool = False,
) -> tuple[BundleManifest, Path]:
    """The chosen bundle and its directory, fetched if it is not complete yet; with `reread` also if it is damaged. Its
    weights are in the chosen mode if the server offers it.

    Raises BundleError, before anything is fetched, if the server at `address` hands out another than it did, unless
    what is new is to be trusted.
    """
    manifest = manifest_of(description, choice, cache)
    await keep_pin(cache, address, description, manifest, choice.model, trust_new=trust_new)
    if reread:
        await discard_damaged(cache, manifest)
    if not is_complete(cache, manifest):
        with download(manifest) as advance:
            await pull(connection, description, manifest, cache, advance)
    return manifest, bundle_directory(cache, manifest)


def manifest_of(description: ServerDescription, choice: DraftChoice, cache: Path) -> BundleManifest:
    """That of the chosen draft, in the chosen mode of weights."""
    chosen = choose_bundle(description.bundles, choice.bundle)
    return in_weights(chosen, description.quantised, choice.weights, cache)


def each_bundle(description: ServerDescription, choice: DraftChoice) -> list[DraftChoice]:
    """The choice of each bundle: of the draft beside which the others draft, these, and what stands in; for `auto` of
    every draft model that the server offers."""
    if choice.draft == AUTO:
        models = [each.draft for each in description.bundles if each.kind not in STATELESS_KINDS]
        return [replace(choice, draft=name) for name in models]
    further = [*choice.other_bundles, *([choice.stand_in] if choice.stand_in else [])]
    return [choice, *(replace(choice, draft=name) for name in further)]


def check_together(description: ServerDescription, choice: DraftChoice) -> None:
    """Whether the drafts of a choice can draft together for the target that is described. Raises MisuseError where one
    is not for it, or one request for draft state does not serve them all; before anything is fetched."""
    if not choice.other_bundles:
        return
    offered = {manifest.draft: manifest.kind for manifest in description.bundles}
    names = [name for name in (choice.bundle, *choice.other_bundles) if name is not None]
    missing = next((name for name in names if name not in offered), None)
    if missing is not None:
        other = next(name for name in names if name != missing)
        raise MisuseError(
            f"'{other}' and '{missing}' cannot draft together, for the server offers no '{missing}' for the target "
            f"'{description.model}'; choose from: {', '.join(offered)}"
        )
    check_shared_state([(offered[name], StateRequest(name)) for name in names])


def _begin_imports(kept: ServerDescription, draft: str | None) -> asyncio.Future[None] | None:
    """Imports what the draft needs, while the connection is being made; None if the draft is not known."""
    manifest = next((each for each in kept.bundles if each.draft == draft), None)
    if manifest is None and draft is None and kept.bundles:
        manifest = choose_bundle(kept.bundles, None)
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


def _settled(description: ServerDescription, choice: DraftChoice, round_trip: float, cache: Path) -> DraftChoice:
    """The choice with the draft model that drafts fastest here instead of `auto`, of those that are in the
    cache."""
    from client.drafting.fastest_draft import settle

    loaders = []
    for each in each_bundle(description, choice):
        manifest = manifest_of(description, each, cache)
        if is_complete(cache, manifest):
            bundle = bundle_directory(cache, manifest)
            sizes = description.context, description.vocab_size
            loaders.append(DraftLoader(bundle, manifest, each, *sizes, round_trip))
    return settle(choice, loaders, LevelTimes(cache))


def _remembered(kept: ServerDescription | None) -> tuple[Address, ...]:
    return () if kept is None else kept.replicas


@asynccontextmanager
async def _prepared(
    access: Access,
    choice: DraftChoice,
    where: Path,
    download: Download,
    *,
    drafts: bool = True,
    before: Sequence[Client] = (),
) -> AsyncIterator[Client]:
    """A client of one of the server's replicas: that of the clients made `before`, which is not asked again if it was
    not reached. The bundle counts as in use meanwhile."""
    if choice.draft == AUTO and not drafts:
        choice = replace(choice, draft=None)  # nothing is worth timing
    asked_address, asked = access.address, str(access.address)
    kept, hitch = recall(where, asked, choice.model), ""
    imported = None if kept is None or not drafts else _begin_imports(kept, choice.bundle)
    async with AsyncExitStack() as stack:
        connection: Connection | None = None
        try:
            seconds = DESCRIBE_S if kept is None else _KNOWN_SECONDS
            if before:
                access, connection = before[0].access, before[0].connection
                if not all(client.was_reached for client in before):
                    raise LinkError(f"the server at {asked} cannot be reached; try again when it is back")
                description = await describe(connection, seconds, choice.model)
            else:
                replica = await choose_replica(access, seconds, choice.model, _remembered(kept))
                stack.push_async_callback(replica.connection.close)
                access, connection, description = replica.access, replica.connection, replica.description
            if imported is not None:
                await imported  # which would delay what is timed now
            # The first call has set up the connection, and may have waited for a server that was loading.
            began = time.perf_counter()
            await describe(connection, DESCRIBE_S, choice.model)
            round_trip = time.perf_counter() - began
            check_together(description, choice)
            if choice.draft == AUTO:
                for each in each_bundle(description, choice):
                    await fetch_bundle(connection, asked_address, description, each, where, download)
                choice = await asyncio.to_thread(_settled, description, choice, round_trip, where)
            bundles = [
                await fetch_bundle(connection, asked_address, description, wanted, where, download)
                for wanted in each_bundle(description, choice)
            ]
            remember(where, asked, description, choice.model)
        except LinkError as error:
            if kept is None:
                raise
            description, round_trip = kept, math.inf
            hitch = str(error) if isinstance(error, HungUpError) else ""
            if choice.draft == AUTO:
                choice = await asyncio.to_thread(_settled, kept, choice, round_trip, where)
            check_together(kept, choice)
            manifests = [manifest_of(kept, wanted, where) for wanted in each_bundle(kept, choice)]
            bundles = [(manifest, bundle_directory(where, manifest)) for manifest in manifests]
            if not all(is_complete(where, manifest) for manifest in manifests):
                raise
            if connection is None:
                access = with_list(access, _remembered(kept))
                connection = await stack.enter_async_context(access.connect())
        for manifest, bundle in bundles:
            stack.enter_context(in_use(where, manifest.id, asked))
            await asyncio.to_thread(check_intact, bundle, manifest)
        (manifest, bundle), *others = bundles
        with ended_by_second_interrupt():
            tokenizer = tokenizer_of(where, manifest, bundle)
        constrain = Grammars(tokenizer, description.vocab_size, description.end_tokens)
        yield Client(
            access,
            connection,
            description,
            manifest,
            bundle,
            tokenizer,
            constrain,
            choice,
            round_trip,
            await stack.enter_async_context(SharedConnection(access, connection, description)),
            hitch,
            tuple(others),
        )
