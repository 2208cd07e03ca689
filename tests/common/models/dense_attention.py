"""Random passes over one layer, and what each row of them gets by the definition of attention: one dense softmax."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from common.models.buckets import Bucket
from common.models.layer_attention import Scoring
from common.models.plan import AttentionPlan, PlanLimits, plan_pass
from common.models.segment import Segment

CPU = torch.device("cpu")
SLOTS = 900
HEADS, KV_HEADS, DIM = 6, 2, 8


@dataclass(frozen=True, eq=False)
class Layer:
    query: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor


def make_layer(rows: int, value_dim: int = DIM) -> Layer:
    torch.manual_seed(rows)
    query = torch.randn(HEADS, rows, DIM, dtype=torch.float64)
    keys, values = (torch.randn(KV_HEADS, SLOTS, dim, dtype=torch.float64) for dim in (DIM, value_dim))
    return Layer(query, keys, values)


def scattered(random: np.random.Generator, free: list[int], count: int) -> list[int]:
    """Ranges of slots of all lengths, in any order."""
    slots: list[int] = []
    while len(slots) < count:
        first, length = int(random.integers(len(free))), int(random.integers(1, 80))
        taken = free[first : first + min(length, count - len(slots))]
        del free[first : first + len(taken)]
        slots += taken
    return slots


def random_segments(seed: int) -> list[Segment]:
    """Trees and chains with one new token, some nodes computed by an earlier pass, behind pasts of all lengths."""
    random, free = np.random.default_rng(seed), list(range(SLOTS))
    segments = []
    for past in random.permutation([0, 3, 90, 200]):
        length = int(random.integers(1, 40))
        slots = scattered(random, free, int(past) + length)
        segments.append(Segment([1], slots[past:], range(-1, length - 1), slots[:past], [0]))
        branches = int(random.integers(1, 12))
        new = int(random.integers(1, branches + 1))
        parents = [int(random.integers(-1, index)) for index in range(branches)]
        slots = scattered(random, free, int(past) + branches)
        segments.append(Segment([1] * new, slots[past:], parents, slots[:past], range(new)))
    return segments


def dense(plan: AttentionPlan, layer: Layer, scoring: Scoring) -> torch.Tensor:
    """`[N, H * V]`: each row's softmax over all that it sees, by the definition."""
    results = []
    for segment in plan.segments:
        positions = np.concatenate([np.arange(segment.past), segment.branch_positions])
        ancestors = segment.ancestry.seen(segment.new)
        for row in range(segment.new):
            position = segment.branch_positions[len(segment.branch_positions) - segment.new + row]
            seen = np.concatenate([np.ones(segment.past, dtype=np.bool_), ancestors[row]])
            if scoring.sliding_window is not None:
                seen &= positions > position - scoring.sliding_window
            if scoring.chunk is not None:
                seen &= positions // scoring.chunk == position // scoring.chunk
            slots = torch.from_numpy(segment.context_slots[seen])
            keys, values = (
                held[:, slots].repeat_interleave(HEADS // KV_HEADS, dim=0) for held in (layer.keys, layer.values)
            )
            scores = torch.einsum("hd,hsd->hs", layer.query[:, segment.first_row + row], keys) * scoring.scaling
            if scoring.softcap is not None:
                scores = torch.tanh(scores / scoring.softcap) * scoring.softcap
            weights = scores.exp()
            total = weights.sum(-1)
            if scoring.sinks_H is not None:
                total = total + scoring.sinks_H.exp()
            results.append((torch.einsum("hs,hsv->hv", weights, values) / total[:, None]).flatten())
    return torch.stack(results)


SCORINGS = {
    "plain": Scoring(0.3),
    "window": Scoring(0.3, sliding_window=70),
    "chunk": Scoring(0.3, chunk=64),
    "cap": Scoring(0.3, softcap=2.0),
    "sinks": Scoring(0.3, sinks_H=torch.linspace(-1, 2, HEADS, dtype=torch.float64)),
    "all": Scoring(0.3, 70, 64, 2.0, torch.linspace(-1, 2, HEADS, dtype=torch.float64)),
}


def sharing_segments() -> list[Segment]:
    """Sessions behind a common prefix of 200 slots: two that end with it, one whose own slots follow it, one that
    leaves it in the middle, and one beside them."""
    pasts = [range(200), range(200), range(250), [*range(120), *range(400, 500)], range(600, 700)]
    return [
        Segment([1, 1], [800 + 2 * index, 801 + 2 * index], [-1, -1], list(past), [0, 1])
        for index, past in enumerate(pasts)
    ]


def plan_of(
    segments: Sequence[Segment],
    bucket: Bucket | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device = CPU,
) -> AttentionPlan:
    """Without the slot that rows write into that fill a bucket up."""
    return plan_pass(segments, PlanLimits(SLOTS, 10, dtype, device), bucket).attention


def random_plan(seed: int) -> AttentionPlan:
    return plan_of(random_segments(seed))
