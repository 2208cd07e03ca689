"""The server's side of a virtual run: target, exporters and drafts loaded once, an engine for each run.

May know how a server is put together. It may not know clients, links or what is measured.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from common.stated_costs import HALF_THE_CORES, SERVER_LEVEL_MS, STATED
from netem.virtual.clock import VirtualWorker
from server.engine import Engine
from server.events import EventListener, ignore_event
from server.models.draft_models import load_exporters
from server.models.offer import Offer, make_offer
from server.models.server_drafters import DrafterPlacement, StateFedDrafterFactory
from server.options import Pace, SessionOptions
from server.passes.state_maker import StateMaker
from server.passes.target import Target, load_target
from server.sessions.admission import ServingLimits
from server.sessions.sessions import Sessions

PACE = Pace(STATED["pass_ms"] / 1000, STATED["token_ms"] / 1000, SERVER_LEVEL_MS / 1000)

_CACHE_TOKENS = 32768


@dataclass(frozen=True)
class Datacenter:
    offer: Offer
    target: Target
    maker: StateMaker

    @asynccontextmanager
    async def serve(
        self,
        pace: Pace = PACE,
        max_sessions: int = 64,
        lease_seconds: float = 0.0,
        on_event: EventListener = ignore_event,
    ) -> AsyncIterator[Engine]:
        """An engine on the running virtual loop, with no session of any run before; one whose stream is gone waits
        `lease_seconds` for its client. `on_event` hears what happens to sessions."""
        options = SessionOptions("auto", run_ahead=128, pass_tokens=512, max_sessions=max_sessions, pace=pace)
        terms = self.offer.terms(options, _CACHE_TOKENS, self.maker.kinds)
        sessions = Sessions(
            terms, ServingLimits(max_sessions, options.pass_tokens, lease_seconds), _CACHE_TOKENS, on_event=on_event
        )
        drafter_factory = StateFedDrafterFactory(
            self.offer.draft_models, self.maker, DrafterPlacement("cpu", "float32", terms.context, terms.vocab_size)
        )
        clock = asyncio.get_running_loop().time
        engine = Engine(sessions, self.target, pace, self.maker, drafter_factory, clock, VirtualWorker)
        running = asyncio.create_task(engine.run())
        try:
            yield engine
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def open_datacenter(target: Path, drafts: Sequence[Path]) -> Datacenter:
    """Raises CheckpointError where something does not fit together."""
    offer = make_offer(str(target), tuple(map(str, drafts)))
    loaded = load_target(
        str(offer.directory),
        device="cpu",
        dtype="float32",
        capacity=_CACHE_TOKENS,
        threads=HALF_THE_CORES,
        keep_hidden=offer.needs_hidden,
    )
    return Datacenter(offer, loaded, StateMaker(loaded.model.pool, load_exporters(offer.draft_models, loaded.model)))
