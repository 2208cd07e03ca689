"""Attention to views on a GPU: one view of each segment in one launch of torch's variable-length attention.

It takes sequences that lie end to end. A layer's pool is taken as one such row: each view is a sequence, and what lies
between two views is a sequence without queries, for which no block is launched. Sessions that share a prefix have views
of the same slots, which are one sequence with the queries of all, and views that overlap, which take several launches.

It may not know segments or how a layout came about. No machine with a GPU has run it yet: what is tested is that its
offsets, given to the same function in plain torch, lead to the results of one call for each view. So the kernel
is tried first.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from inspect import signature
from itertools import accumulate
from math import log
from typing import Any

import torch

from common.models.attention_layout import Layout, View
from common.models.attention_parts import PartialResult, over_views_one_by_one
from common.models.layer_attention import Scoring

# Shape letters: N packed rows, H query heads, K key/value heads, F = H / K, D head dimension, V dimension of a head's
# values, S slots, T rows of the views of one launch.
# ruff: noqa: N803, N806

_log = logging.getLogger(__name__)

VarlenAttention = Callable[..., Any]
"""`torch.nn.attention.varlen.varlen_attn` with its log-sum-exp: `[T, H, D]` and `[H, T]`. H is a multiple of the heads
of the keys."""

_TOLERANCE = 1e-3
"""Of a log-sum-exp, which is float32."""

_LEAST_MOST_QUERIES = 2
"""Told of at most one query, the kernel takes it that each sequence has exactly one, and gaps have none."""


@dataclass(frozen=True, eq=False)
class ViewSequences:
    """The sequences of one launch, in the order of their slots."""

    rows: torch.Tensor
    """`[T]`: packed rows, view by view. None comes twice."""
    query_offsets: torch.Tensor
    """Where the queries of each sequence begin, and their end, int32."""
    key_offsets: torch.Tensor
    """The slot at which each sequence begins, and the end of the last, int32."""
    most_queries: int
    most_keys: int

    @classmethod
    def of(cls, sequences: Sequence[Sequence[View]], device: torch.device) -> "ViewSequences":
        """The views of a sequence have the same slots; sequences do not overlap."""
        queries = [sum(view.rows.stop - view.rows.start for view in views) for views in sequences]
        slots = [views[0].slots for views in sequences]
        bounds = [bound for each in slots for bound in (each.start, each.stop)]
        # From slot 0 on, every second sequence is a gap.
        counts = [count for each in queries for count in (0, each)]
        return cls(
            torch.cat([torch.arange(view.rows.start, view.rows.stop) for views in sequences for view in views]).to(
                device
            ),
            torch.tensor([0, *accumulate(counts)], dtype=torch.int32, device=device),
            torch.tensor([0, *bounds], dtype=torch.int32, device=device),
            max(_LEAST_MOST_QUERIES, *queries),
            max(each.stop - each.start for each in slots),
        )


class OverViewsAtOnce:
    """`OverViews` by few launches, where the kernel computes what the layer asks for; else one call for each
    view."""

    def __init__(self, varlen: VarlenAttention):
        self._varlen = varlen

    def __call__(
        self,
        query_KFND: torch.Tensor,
        keys_KSD: torch.Tensor,
        values_KSV: torch.Tensor,
        layout: Layout,
        scoring: Scoring,
    ) -> Iterator[PartialResult]:
        if scoring.softcap is not None or keys_KSD.shape[2] != values_KSV.shape[2]:
            yield from over_views_one_by_one(query_KFND, keys_KSD, values_KSV, layout, scoring)
            return
        heads = query_KFND.shape[:2]
        for sequences in layout.once(partial(launches_over, layout.views, query_KFND.device)):
            query_THD = query_KFND.flatten(0, 1).index_select(1, sequences.rows).transpose(0, 1)
            result_THV, log_sums_HT = self._varlen(
                query_THD,
                keys_KSD.transpose(0, 1),
                values_KSV.transpose(0, 1),
                sequences.query_offsets,
                sequences.key_offsets,
                sequences.most_queries,
                sequences.most_keys,
                scale=scoring.scaling,
            )
            yield sequences.rows, result_THV.transpose(0, 1).unflatten(0, heads), log_sums_HT.unflatten(0, heads)


def launches_over(views: Sequence[View], device: torch.device) -> list[ViewSequences]:
    """The sequences of each launch. A row is in one sequence of a launch at most, because its results in another launch
    are merged with it."""
    launches: list[list[list[View]]] = []
    rows_of: list[set[int]] = []
    for view in sorted(views, key=lambda view: (view.slots.start, view.slots.stop)):
        for sequences, rows in zip(launches, rows_of, strict=True):
            last = sequences[-1][0].slots
            if view.rows.start in rows or (last.stop > view.slots.start and last != view.slots):
                continue
            if last == view.slots:
                sequences[-1].append(view)
            else:
                sequences.append([view])
            rows.add(view.rows.start)
            break
        else:
            launches.append([[view]])
            rows_of.append({view.rows.start})
    return [ViewSequences.of(sequences, device) for sequences in launches]


def _try(kernel: VarlenAttention, device: torch.device, dtype: torch.dtype) -> None:
    """Launches it once as passes do: two query heads for each of keys, which lie head by head, and a gap. Raises
    `RuntimeError` where a query head does not see the values of its own keys."""
    heads, dim = 2, 16
    query_THD = torch.zeros(1, 2 * heads, dim, dtype=dtype, device=device)
    keys_SKD = torch.zeros(heads, 4, dim, dtype=dtype, device=device).transpose(0, 1)
    values_SKD = keys_SKD + torch.arange(heads, dtype=dtype, device=device)[:, None]
    queries, keys = (torch.tensor(ends, dtype=torch.int32, device=device) for ends in ([0, 0, 1], [0, 2, 4]))
    result_THD, log_sums_HT = kernel(query_THD, keys_SKD, values_SKD, queries, keys, _LEAST_MOST_QUERIES, 2, scale=1.0)
    seen, log_sums = result_THD[0, :, 0].tolist(), log_sums_HT[:, 0].tolist()
    if seen != [0, 0, 1, 1] or any(abs(each - log(2)) > _TOLERANCE for each in log_sums):
        raise RuntimeError("its results are others than attention's")


@cache
def find_varlen(device: torch.device, dtype: torch.dtype) -> VarlenAttention | None:
    """The kernel, None where there is none for this device and dtype, which is logged once for a GPU."""
    if device.type != "cuda":
        return None
    if dtype not in (torch.float16, torch.bfloat16):
        missing = "it needs float16 or bfloat16"
    elif torch.cuda.get_device_capability(device) < (8, 0):
        missing = "it needs a GPU of compute capability 8.0 or newer"
    else:
        try:
            from torch.nn.attention.varlen import AuxRequest, varlen_attn

            # Where it does not know the argument, as in torch 2.11, it takes fewer heads of keys without being told.
            grouped: dict[str, Any] = {"enable_gqa": True} if "enable_gqa" in signature(varlen_attn).parameters else {}
            kernel = partial(varlen_attn, return_aux=AuxRequest(lse=True), **grouped)
            _try(kernel, device, dtype)
            return kernel
        except ImportError:
            missing = "this torch has none"
        # Releases of torch differ in its arguments, builds in the GPUs that they have it for.
        except Exception as refusal:
            missing = f"it does not run here ({(str(refusal) or type(refusal).__name__).splitlines()[0]})"
    _log.warning("no variable-length attention on %s: %s; passes take more launches without it", device, missing)
    return None
