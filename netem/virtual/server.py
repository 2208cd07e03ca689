"""The server of virtual runs: target, exporters and draft models are loaded once, and each run has an engine of its
own.

May know how a server is assembled. It may not know clients, links or what is measured.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from common.stated_costs import HALF_THE_CORES, STATED, StatedCosts
from netem.virtual.clock import VirtualWorker
from server.engine import Engine
from server.events import EventListener, ignore_event
from server.models.draft_models import load_exporters
from server.models.offer import Offer, make_offer
from server.models.server_drafters import DrafterPlacement, StateFedDrafterFactory
from server.models.target_loader import load_target
from server.options import Pace, SessionOptions
from server.passes.state_maker import Exporters, StateMaker
from server.passes.target import Target
from server.sessions.admission import ServingLimits
from server.sessions.sessions import Sessions


def pace_of(costs: StatedCosts) -> Pace:
    return Pace(costs.pass_ms / 1000, costs.token_ms / 1000, costs.server_level_ms / 1000)


PACE = pace_of(STATED)

_CACHE_TOKENS = 32768


@asynccontextmanager
async def running(engine: Engine) -> AsyncIterator[None]:
    """Runs an engine on the running virtual loop until the block ends."""
    passes = asyncio.create_task(engine.run())
    try:
        yield
    finally:
        passes.cancel()
        await asyncio.gather(passes, return_exceptions=True)


@dataclass(frozen=True)
class VirtualServer:
    """Loaded models of a server."""

    offer: Offer
    target: Target
    exporters: Exporters

    @asynccontextmanager
    async def serve(
        self,
        pace: Pace = PACE,
        max_sessions: int = 64,
        lease_seconds: float = 0.0,
        on_event: EventListener = ignore_event,
    ) -> AsyncIterator[Engine]:
        """Runs a new engine on the running virtual loop until the block ends.

        lease_seconds: how long a session whose stream is gone is kept for its client. on_event: called with each event
        of a session.
        """
        options = SessionOptions("auto", run_ahead=128, pass_tokens=512, max_sessions=max_sessions, pace=pace)
        # What a maker keeps belongs to the slots of one engine's sessions.
        maker = StateMaker(self.target.model.pool, self.exporters)
        terms = self.offer.terms(options, _CACHE_TOKENS, maker.kinds)
        limits = ServingLimits(max_sessions, options.pass_tokens, lease_seconds)
        # A question costs the same whatever was asked before, so that systems and repetitions can be compared.
        sessions = Sessions(terms, limits, _CACHE_TOKENS, on_event=on_event, share_prefixes="never")
        drafter_factory = StateFedDrafterFactory(
            self.offer.draft_models, maker, DrafterPlacement("cpu", "float32", terms.context, terms.vocab_size)
        )
        clock = asyncio.get_running_loop().time
        engine = Engine(sessions, self.target, pace, maker, drafter_factory, clock, VirtualWorker)
        async with running(engine):
            yield engine


def load_virtual_server(
    target: Path,
    drafts: Sequence[Path],
    dtype: str = "float32",
    batch_invariant: bool | None = None,
    load: Callable[..., Target] = load_target,
) -> VirtualServer:
    """Loads checkpoints, the target by `load`; `batch_invariant` is that of `load_target`. Raises CheckpointError where
    they do not fit together."""
    offer = make_offer(str(target), tuple(map(str, drafts)))
    loaded = load(
        str(offer.directory),
        device="cpu",
        dtype=dtype,
        capacity=_CACHE_TOKENS,
        threads=HALF_THE_CORES,
        keep_hidden=offer.needs_hidden,
        taps=offer.taps,
        quantise="",
        batch_invariant=batch_invariant,
    )
    return VirtualServer(offer, loaded, load_exporters(offer.draft_models, loaded.model))
