"""The real client joined to the real server in one event loop: everything but gRPC."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import torch
from transformers import LogitsProcessor, LogitsProcessorList

from client.conversation import Conversation
from client.drafting.loop import DraftingLoop
from client.drafting.policies import STREAM, Policy
from common.drafters.drafter import Drafter
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.protocol.client_session import ClientSession, Limits
from common.protocol.constraint import Constrain, no_constraints
from common.protocol.messages import FromClient, FromServer
from common.protocol.terms import Terms
from common.rpc.traffic import Traffic
from server.engine import Engine
from server.models.draft_models import DraftModel, load_exporters, needed_taps
from server.options import Pace
from server.passes.state_maker import StateMaker
from server.passes.target import Target
from server.sessions.outgoing_queue import OutgoingQueue
from server.sessions.sessions import ServingLimits, Sessions

CAPACITY = 4096
CONTEXT = 256
MAX_NODES = 64


class Wire:
    """The client's stream to an engine in the same process."""

    traffic = Traffic()

    def __init__(self, engine: Engine):
        self._engine = engine
        self._stream = OutgoingQueue()
        self._messages = aiter(self._stream)

    def send(self, message: FromClient) -> None:
        asyncio.get_running_loop().call_soon(self._engine.receive, self._stream, message)

    async def receive(self) -> FromServer:
        return await anext(self._messages)

    def close(self) -> None:
        self._engine.leave(self._stream)


class LocalServer:
    """A server for a checkpoint, with the drafts to which it sends draft state."""

    def __init__(
        self,
        checkpoint: Path,
        end_tokens: frozenset[int] = frozenset(),
        dtype: torch.dtype = torch.float64,
        drafts: Sequence[DraftModel] = (),
        constrain: Constrain = no_constraints,
    ):
        self.model = load_causal_lm(checkpoint, dtype=dtype)
        self.vocab = self.model.config.vocab_size
        taps = needed_taps(drafts, self.model.config.num_hidden_layers)
        packed = PackedModel(load_causal_lm(checkpoint, dtype=dtype), CAPACITY, keep_hidden=True, taps=set(taps))
        self._maker = StateMaker(packed.pool, load_exporters(drafts, packed))
        terms = Terms(
            "f",
            self.vocab,
            CONTEXT,
            end_tokens,
            detokenise=str,
            constrain=constrain,
            max_nodes=MAX_NODES,
            state_kinds=self._maker.kinds,
        )
        self.sessions = Sessions(terms, ServingLimits(max_sessions=16, pass_tokens=96), CAPACITY)
        self.counters = self.sessions.counters
        self._target = Target(packed)
        self._constrain = constrain
        self._numbers = iter(range(10**6))
        self._truths: dict[tuple[tuple[int, ...], int, tuple[int, ...]], tuple[int, ...]] = {}

    @asynccontextmanager
    async def running(self, clock: Callable[[], float] = time.monotonic) -> AsyncIterator[None]:
        self._engine = Engine(self.sessions, self._target, Pace(), self._maker, clock=clock)
        passes = asyncio.create_task(self._engine.run())
        try:
            yield
        finally:
            passes.cancel()
            with suppress(asyncio.CancelledError):
                await passes

    @asynccontextmanager
    async def converse(self, drafter: Drafter | None, policy: Policy = STREAM) -> AsyncIterator[Conversation]:
        limits = Limits("f", self.vocab, CONTEXT, MAX_NODES, self._constrain)
        state = None if drafter is None else drafter.state
        session = ClientSession(f"session number {next(self._numbers)}", limits, state)
        wire = Wire(self._engine)
        loop = DraftingLoop(session, policy, drafter is not None)
        conversation = Conversation(wire, loop, drafter, "test", tree=policy.tree)
        try:
            yield conversation
        finally:
            conversation.close()
            wire.close()

    def truth(self, prompt: Sequence[int], length: int, end_tokens: Sequence[int] = ()) -> tuple[int, ...]:
        """What `generate` says; generated once, for many tests ask for the same."""
        asked = tuple(prompt), length, tuple(end_tokens)
        if asked not in self._truths:
            self._truths[asked] = self.generate(*asked)
        return self._truths[asked]

    def generate(
        self,
        prompt: tuple[int, ...],
        length: int,
        end_tokens: tuple[int, ...] = (),
        processors: Sequence[LogitsProcessor] = (),
    ) -> tuple[int, ...]:
        """The greedy answer of transformers' own `generate`."""
        generated = self.model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=length,
            do_sample=False,
            eos_token_id=list(end_tokens) or None,
            pad_token_id=0,
            logits_processor=LogitsProcessorList(processors),
        )
        return tuple(generated[0, len(prompt) :].tolist())
