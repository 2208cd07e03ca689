"""Puts a client together: a connection, the bundle that fits the server, its tokenizer and drafters.

The only place that knows all the parts; it decides nothing of drafting and shows nothing but a download.
"""

import math
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from client.bundles import Advance, bundle_directory, choose_bundle, is_complete, pull
from client.conversation import Conversation
from client.depth import Depth, best_depth
from client.drafting import DraftingLoop
from client.errors import BundleError, RefusedError
from client.known_servers import recall, remember
from client.link import Access, QueuedStream, dial
from client.monologue import Bounds
from client.offline import Offline
from client.policies import Policy
from client.secluded import Confidant
from client.text import decode
from common.bundle import TOKENIZER_FOLDER, BundleManifest, first_damaged
from common.cache import cache_directory
from common.drafters.deepening import DeepeningDrafter
from common.drafters.drafter import Drafter
from common.protocol.client_session import ClientSession, Limits
from common.protocol.draft_state import WIRE_DTYPES
from common.protocol.errors import MisuseError
from common.protocol.messages import PROTOCOL_VERSION, StateRequest
from common.rpc.description import ServerDescription
from common.rpc.errors import LinkError
from common.rpc.stub import Connection

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

_DESCRIBE_SECONDS = 20.0

_FARTHEST = 60.0
"""Seconds to a server that was not reached, where drafts are weighed by what a miss costs."""

Download = Callable[[BundleManifest], AbstractContextManager[Advance]]
"""Begins to show a download; what it yields is told the bytes in place."""


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """What drafts and on what; `draft` is None for the server's first, `threads` 0 to leave them to torch. A draft
    that needs draft state gets it in numbers of the dtype `state`, and runs the target's last `layers` itself; None
    chooses as many as make answers fastest."""

    draft: str | None = None
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 0
    layers: int | None = 0
    state: str = "int8"

    def __post_init__(self) -> None:
        """Raises MisuseError for a dtype in which no server sends state."""
        if self.state not in WIRE_DTYPES:
            raise MisuseError(f"draft state cannot come in '{self.state}'; choose from: {', '.join(WIRE_DTYPES)}")


@dataclass(frozen=True, slots=True)
class _Trial(Depth):
    """A depth and the drafter that was timed at it."""

    drafter: Drafter


@dataclass(frozen=True, slots=True)
class Client:
    """A server, what it said of itself when it was last reached, and its bundle at hand."""

    access: Access
    connection: Connection
    description: ServerDescription
    manifest: BundleManifest
    bundle: Path
    tokenizer: "Tokenizer"
    choice: DraftChoice
    round_trip: float  # seconds, of a call on a connection that stands; infinite where the server was not reached

    @property
    def was_reached(self) -> bool:
        return self.round_trip < math.inf

    def require_rule(self, rule: str) -> None:
        """Raises MisuseError where the server does not offer the rule."""
        if rule not in self.description.rules:
            offered = ", ".join(self.description.rules)
            raise MisuseError(f"this server does not offer the rule '{rule}'; it offers {offered}")

    def require_idle(self, idle: str) -> None:
        """Raises MisuseError where the server has no such idle policy; an empty one leaves the choice to it."""
        if idle and idle not in self.description.idle_policies:
            offered = ", ".join(self.description.idle_policies)
            raise MisuseError(f"this server has no idle policy '{idle}'; it has {offered}")

    def load_drafter(self) -> Drafter:
        """A fresh drafter for one conversation. Raises OutriderError where it cannot be loaded."""
        if self.choice.threads:
            import torch

            torch.set_num_threads(self.choice.threads)
        if self.choice.layers is None:
            return self._load_fastest()
        return self._load(self.choice.layers)

    def _load(self, layers: int) -> Drafter:
        from common.drafters.load import DraftSite, load_drafter

        site = DraftSite(
            self.bundle,
            self.choice.device,
            self.choice.dtype,
            self.description.context,
            self.description.vocab_size,
            StateRequest(self.manifest.draft, layers, self.choice.state),
        )
        with _telling_damage(self.bundle, self.manifest):
            drafter = load_drafter(self.manifest.kind, site)
        if layers and drafter.state is None:
            raise MisuseError(f"the draft '{self.manifest.draft}' runs no layer of the target, not {layers}; choose 0")
        return drafter

    def _load_fastest(self) -> Drafter:
        """Tries every depth that was measured after training; where none was, runs no layer of the target. What runs
        none goes to the deepest while it writes alone.

        Raises BundleError where the bundle names what cannot be: nobody here has chosen a depth.
        """
        measured = self._accept_lengths()
        if not measured:
            return self._load(0)
        if len(measured) == 1:
            return self._load_named(*measured)
        # Tried as they are asked for, so that no more than the best so far and the next are in memory.
        trials = (self._try(layers, accept_length) for layers, accept_length in measured.items())
        best, deepest = best_depth(trials, min(self.round_trip, _FARTHEST)), max(measured)
        if best.layers or not deepest:
            return best.drafter
        return DeepeningDrafter(
            best.drafter,
            self._load_named(deepest),
            StateRequest(self.manifest.draft, deepest, self.choice.state, later=True),
        )

    def _accept_lengths(self) -> dict[int, float]:
        from common.drafts.directory import read_accept_lengths
        from common.models.errors import CheckpointError
        from common.models.source import CONFIG

        if not (self.bundle / CONFIG).is_file():
            return {}
        try:
            return read_accept_lengths(self.bundle)
        except CheckpointError as error:
            raise self._fault_of_bundle(error) from error

    def _try(self, layers: int, accept_length: float) -> "_Trial":
        from client.level_time import level_seconds

        drafter = self._load_named(layers)
        seconds = level_seconds(drafter, self.description.vocab_size, time.perf_counter)
        return _Trial(layers, accept_length, seconds, drafter)

    def _load_named(self, layers: int) -> Drafter:
        """At a depth that the bundle names."""
        from common.models.errors import CheckpointError

        try:
            return self._load(layers)
        except CheckpointError:
            raise  # the device or the dtype that a person chose may be at fault
        except MisuseError as error:
            raise self._fault_of_bundle(error) from error

    def _fault_of_bundle(self, error: MisuseError) -> BundleError:
        return _damage(self.bundle, self.manifest) or BundleError(
            f"the bundle of the draft '{self.manifest.draft}' cannot be used as its server sent it: {error}"
        )

    @asynccontextmanager
    async def converse(
        self,
        policy: Policy,
        drafter: Drafter | None,
        pace: float = 0.0,
        offline: Offline = Offline(),  # noqa: B008
    ) -> AsyncIterator[Conversation]:
        """A new session on streams of its own; each drafted level takes at least `pace` seconds."""
        limits = Limits(
            self.description.fingerprint,
            self.description.vocab_size,
            self.description.context,
            self.description.max_nodes,
        )
        session = ClientSession(uuid.uuid4().hex, limits, drafter.state if drafter and policy.drafts else None)
        loop = DraftingLoop(session, policy, drafter is not None, self.description.end_tokens)
        conversation = Conversation(
            QueuedStream(self.connection.generate()) if self.was_reached else None,
            loop,
            drafter,
            self.manifest.draft if drafter is not None else "none",
            pace,
            policy.tree,
            dial=partial(dial, self.access),
            offline=offline,
        )
        try:
            yield conversation
        finally:
            conversation.close()

    def confidant(self, conversation: Conversation) -> Confidant:
        """Keeps to this machine what of a conversation is private."""
        ends = frozenset(self.description.end_tokens)
        return Confidant(conversation, Bounds(self.description.context, ends, partial(decode, self.tokenizer)))


async def describe(connection: Connection) -> ServerDescription:
    """Raises RefusedError where the server speaks another version of the protocol, LinkError where it is absent."""
    description = await connection.describe(_DESCRIBE_SECONDS)
    if description.version != PROTOCOL_VERSION:
        raise RefusedError(
            f"the server speaks protocol version {description.version} and this client {PROTOCOL_VERSION}; "
            "upgrade the older of the two"
        )
    return description


async def fetch_bundle(
    connection: Connection, description: ServerDescription, draft: str | None, cache: Path, download: Download
) -> tuple[BundleManifest, Path]:
    """The chosen bundle and its directory, fetched where it is not complete yet."""
    manifest = choose_bundle(description.bundles, draft)
    if not is_complete(cache, manifest):
        with download(manifest) as advance:
            await pull(connection, description, manifest, cache, advance)
    return manifest, bundle_directory(cache, manifest)


@contextmanager
def _telling_damage(bundle: Path, manifest: BundleManifest) -> Iterator[None]:
    """A checkpoint that cannot be used may have been damaged since it was fetched; then a pull mends it."""
    from common.models.errors import CheckpointError

    try:
        yield
    except CheckpointError as error:
        damage = _damage(bundle, manifest)
        if damage is None:
            raise
        raise damage from error


def _damage(bundle: Path, manifest: BundleManifest) -> BundleError | None:
    """What happened to a bundle since it was fetched; None where it is as its server sent it."""
    damaged = first_damaged(bundle, manifest)
    if damaged is None:
        return None
    return BundleError(f"{damaged} in the bundle is damaged; fetch it again with `outrider pull`")


@asynccontextmanager
async def client_for(
    access: Access, choice: DraftChoice, cache: Path | None, download: Download
) -> AsyncIterator[Client]:
    """A client of the server, ready to converse: without it too, where its bundle is at hand."""
    from common.models.checkpoint import load_tokenizer

    where, address = cache_directory(cache), str(access.address)
    async with access.connect() as connection:
        try:
            description = await describe(connection)
            remember(where, address, description)
            # The first call has set up the connection, and may have waited for a server that was loading.
            began = time.perf_counter()
            await describe(connection)
            round_trip = time.perf_counter() - began
            manifest, bundle = await fetch_bundle(connection, description, choice.draft, where, download)
        except LinkError:
            kept = recall(where, address)
            if kept is None:
                raise
            description, round_trip = kept, math.inf
            manifest = choose_bundle(kept.bundles, choice.draft)
            bundle = bundle_directory(where, manifest)
            if not is_complete(where, manifest):
                raise
        with _telling_damage(bundle, manifest):
            tokenizer = load_tokenizer(bundle / TOKENIZER_FOLDER)
        yield Client(access, connection, description, manifest, bundle, tokenizer, choice, round_trip)
