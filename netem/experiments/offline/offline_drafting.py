"""An answer whose link was cut for good, continued by the client's own drafting loop.

What may live here: a client's session with the target's committed tokens and draft state, and its steps without a link.
It may not know tasks, tables, or which draft models are compared.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from client.drafting.loop import DraftingLoop
from client.drafting.policies import STREAM
from client.link.offline import OfflineOptions
from common.codec import encode
from common.draft_models.exporters import StateExporter
from common.models.segment import Segment
from common.protocol.client_session import ClientSession, Limits
from common.protocol.messages import Commit, Opened, Settings, State
from netem.experiments.one_device.bench import Bench
from netem.experiments.one_device.compared_drafts import ComparedDraft

STATE_DTYPE = "int8"

_SESSION = "an answer that is cut"
_FRAME_POSITIONS = 64  # so that a frame of draft state is no larger than a server's may be


@dataclass(frozen=True, slots=True)
class OfflineAnswer:
    """tokens: of the whole answer. alone: how many of them the draft model wrote. seconds: of this machine, for all of
    those but the first, whose time includes the prompt."""

    tokens: tuple[int, ...]
    alone: int
    seconds: float


def continue_offline(
    bench: Bench, draft: ComparedDraft, prompt: Sequence[int], committed: Sequence[int], new_tokens: int
) -> OfflineAnswer:
    """The answer of at most `new_tokens`, of which `committed` and their draft state had arrived before the cut."""
    drafter = bench.drafter(draft, dtype=STATE_DTYPE)
    limits = Limits(bench.card.fingerprint, bench.card.vocab_size, bench.card.context, OfflineOptions().limit_tokens)
    session = ClientSession(_SESSION, limits, drafter.state)
    loop = DraftingLoop(session, STREAM, has_drafter=True, ends=bench.card.end_tokens)
    room = bench.card.context - len(prompt)
    loop.begin_turn(prompt, Settings(min(new_tokens, room)))
    loop.received(Opened(_SESSION))
    loop.received(Commit(session.turn, len(prompt), tuple(committed)))
    for state in states_of(bench, draft, (*prompt, *committed), session.turn):
        loop.received(state)
    session.lost()
    loop.go_offline(OfflineOptions().limit_tokens)
    seconds: list[float] = []
    while (step := loop.begin_step()) is not None:
        begun = time.perf_counter()
        drafter.expansion = step.expansion or drafter.expansion
        proposals = drafter.draft(step.view, step.states)
        seconds.append(time.perf_counter() - begun)
        loop.drafted(step, proposals)
    return OfflineAnswer((*committed, *loop.run), len(loop.run), sum(seconds[1 : len(loop.run)]))


def states_of(bench: Bench, draft: ComparedDraft, tokens: Sequence[int], turn: int) -> list[State]:
    """The draft state of all positions that the target has processed, which are all but that of the last token."""
    exporters = bench.exporters_of(draft)
    if not exporters:
        return []
    processed = len(tokens) - 1
    slots = range(processed)
    bench.target.forward([Segment(tokens[:-1], slots, range(-1, processed - 1), wanted=[processed - 1])])
    return [
        _frame(bench, exporter, start, min(_FRAME_POSITIONS, processed - start), turn)
        for start in range(0, processed, _FRAME_POSITIONS)
        for exporter in exporters
    ]


def _frame(bench: Bench, exporter: StateExporter, start: int, count: int, turn: int) -> State:
    slots = torch.arange(start, start + count, device=bench.target.model.device)
    payload = encode(exporter.export(bench.target.pool, slots), STATE_DTYPE)
    return State(turn, start, count, exporter.kind, STATE_DTYPE, (count, *exporter.shape), payload)
