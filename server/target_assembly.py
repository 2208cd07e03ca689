"""Assembles one target of the daemon: its weights, its K/V pool, its sessions and the engine that runs them.

It may not know ports, calls or the other targets.
"""

from collections.abc import Callable
from dataclasses import dataclass

from common.rpc.description import ServerDescription
from server.engine import Engine
from server.events import EventListener
from server.models.draft_models import load_exporters
from server.models.offer import Offer, describe
from server.models.server_drafters import DrafterPlacement, StateFedDrafterFactory
from server.models.target_loader import load_target
from server.options import ServeOptions
from server.passes.server_drafting import MAX_SERVER_DRAFTERS
from server.passes.state_maker import StateMaker
from server.passes.target import Target
from server.security.memory_ceiling import TargetMemory
from server.sessions.admission import ServingLimits
from server.sessions.quotas import Quotas
from server.sessions.registry import SessionRegistry
from server.sessions.sessions import Sessions


@dataclass(frozen=True, slots=True)
class AssembledTarget:
    """A target with its engine, what clients are told of it, and the most memory that it takes."""

    engine: Engine
    description: ServerDescription
    memory: TargetMemory

    @property
    def model(self) -> str:
        """The target's name."""
        return self.description.model


@dataclass(frozen=True, slots=True)
class Shared:
    """What all targets of a server share: the names of all, their clients' quotas, and the limits of sessions, by the
    registries of those that are assembled."""

    models: tuple[str, ...]
    quotas: Quotas
    registries: list[SessionRegistry]


def assemble_target(
    offer: Offer,
    cache_tokens: int,
    options: ServeOptions,
    shared: Shared,
    on_event: EventListener,
    load: Callable[..., Target] = load_target,
) -> AssembledTarget:
    """Loads the target by `load`, with at most `cache_tokens` slots for K/V.

    Raises CheckpointError where something does not fit.
    """
    placed, session_options = options.target, options.sessions
    capacity = min(cache_tokens, session_options.max_sessions * offer.card.context)
    target = load(
        str(offer.directory),
        device=placed.device,
        dtype=placed.dtype,
        capacity=capacity,
        threads=placed.threads,
        keep_hidden=offer.needs_hidden,
        taps=offer.taps,
        quantise=placed.quantise,
        batch_invariant=placed.batch_invariant,
        cuda_graphs=placed.cuda_graphs,
    )
    maker = StateMaker(target.model.pool, load_exporters(offer.draft_models, target.model))
    terms = offer.terms(session_options, capacity, maker.kinds)
    site = DrafterPlacement(placed.device, placed.dtype, terms.context, terms.vocab_size)
    limits = ServingLimits(
        session_options.max_sessions,
        session_options.pass_tokens,
        session_options.lease_seconds,
        session_options.max_running,
    )
    sessions = Sessions(
        terms,
        limits,
        capacity,
        shared.quotas,
        on_event,
        shared.registries,
        share_prefixes=session_options.share_prefixes,
    )
    drafter_factory = StateFedDrafterFactory(offer.draft_models, maker, site)
    memory = TargetMemory(
        offer.card.model,
        target.weights_bytes,
        target.cache_bytes,
        capacity,
        cache_tokens - capacity,
        min(limits.running, limits.max_sessions),
        MAX_SERVER_DRAFTERS,
        drafter_factory.weights_bytes,
    )
    return AssembledTarget(
        Engine(sessions, target, session_options.pace, maker, drafter_factory),
        describe(offer, terms, shared.models, placed.numerics(target.is_batch_invariant)),
        memory,
    )
