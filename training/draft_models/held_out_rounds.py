"""The rounds in which a draft model is measured in training.

What may live here: running rounds over held-out prompts. It may not know any draft kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from common.draft_models.exporters import StateExporter
from common.drafters.drafter import Drafter
from common.drafters.load import SPARE_SLOTS
from common.models.packed import PackedModel
from common.protocol.draft_state import DEFAULT_DTYPE, HIDDEN
from common.rounds import Rounds, RoundsAnswer
from training.draft_models.features import FrozenTarget
from training.draft_models.recipe import RoundsSize

Tokens = Sequence[int]


def answer_all(
    target: FrozenTarget,
    make_drafter: Callable[[int], Drafter],
    exporters: Sequence[StateExporter],
    prompts: Sequence[Tokens],
    size: RoundsSize,
    dtype: str = DEFAULT_DTYPE,
) -> list[RoundsAnswer]:
    """The target's greedy answers to prompts of token ids, one after another with one drafter; `dtype` is that of draft
    state on its way. `make_drafter` is given the tokens of the longest sequence, and takes memory for no more: the
    target's context may be far longer. Changes the attention implementation of the target's model."""
    longest = max(map(len, prompts), default=0) + size.new_tokens
    packed = packed_target(target, exporters, longest)
    drafter = make_drafter(longest)
    drafter.expansion = replace(drafter.expansion, nodes=size.nodes)
    rounds = Rounds(packed, drafter, exporters, levels=size.levels, dtype=dtype)
    return [rounds.answer(prompt, size.new_tokens, target.end_tokens) for prompt in prompts]


def packed_target(target: FrozenTarget, exporters: Sequence[StateExporter], longest: int) -> PackedModel:
    """The target with K/V slots for one sequence of `longest` tokens and a tree."""
    keep_hidden = any(exporter.kind == HIDDEN for exporter in exporters)
    taps = {tap for exporter in exporters for tap in exporter.taps}
    return PackedModel(target.model, longest + SPARE_SLOTS, keep_hidden, taps)
