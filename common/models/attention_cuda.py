"""Attention to views on a GPU: the pieces of a launch (`view_launches.py`) in one call of torch's variable-length
attention, and the merge of what each row gets of its pieces.

It may not know segments or how a layout came about. The kernel is tried before it is taken, because releases of torch
differ in it.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from math import log
from typing import Any

import numpy as np
import torch

from common.models.attention_layout import Layout
from common.models.attention_parts import PartialResult, over_views_one_by_one
from common.models.layer_attention import Scoring
from common.models.view_launches import Launch, launches_over

# Shape letters: N packed rows, K key/value heads, F query heads of each, D head dimension, V dimension of a head's
# values, S slots, T rows of a launch, P pieces of the row that has most, n rows with a piece.
# ruff: noqa: N803, N806, N815

_log = logging.getLogger(__name__)

VarlenAttention = Callable[..., Any]
"""`torch.nn.attention.varlen.varlen_attn` with its log-sum-exp, `[T, K, D]` and `[K, T]`, for as many heads of queries
as of keys."""

_WIDEST_HEAD = 256
_HEAD_UNIT = 8
"""Numbers of a head that the kernel takes: at most so many, and a multiple."""

_TOLERANCE = 1e-3
"""Of a log-sum-exp, which is float32."""


@dataclass(frozen=True, eq=False)
class PlacedLaunch:
    """A launch on a device."""

    rows_T: torch.Tensor
    query_offsets: torch.Tensor
    key_offsets: torch.Tensor
    index_PN: torch.Tensor
    """Where in `rows_T` each piece of a row is; anywhere if it has no such piece."""
    has_piece_PN1: torch.Tensor
    most_queries: int
    most_keys: int


def is_supported(scoring: Scoring, keys_KSD: torch.Tensor, values_KSV: torch.Tensor) -> bool:
    """Whether the kernel supports such a layer."""
    dim = keys_KSD.shape[2]
    is_of_its_shapes = dim == values_KSV.shape[2] and dim <= _WIDEST_HEAD and dim % _HEAD_UNIT == 0
    return is_of_its_shapes and scoring.softcap is None


def over_launch(
    varlen: VarlenAttention,
    launch: PlacedLaunch,
    query_KFND: torch.Tensor,
    keys_KSD: torch.Tensor,
    values_KSV: torch.Tensor,
    scoring: Scoring,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`[K, F, N, V]` and `[K, F, N]` of the rows in `launch.index_PN`: 0 and minus infinity for rows without a
    piece."""
    shared = query_KFND.shape[1]
    pieces, rows = launch.index_PN.shape
    # Query heads that share a key/value head become further rows of it, so that keys and values are read once.
    query_RKD = query_KFND.index_select(2, launch.rows_T).permute(2, 1, 0, 3).flatten(0, 1)
    result_RKV, log_sums_KR = varlen(
        query_RKD,
        keys_KSD.transpose(0, 1),
        values_KSV.transpose(0, 1),
        launch.query_offsets * shared,
        launch.key_offsets,
        launch.most_queries * shared,
        launch.most_keys,
        scale=scoring.scaling,
    )
    index_n, has_piece_PN1 = launch.index_PN.flatten(), launch.has_piece_PN1
    result_KFTV = result_RKV.unflatten(0, (-1, shared)).permute(2, 1, 0, 3)
    result_KFPNV = result_KFTV.index_select(2, index_n).unflatten(2, (pieces, rows))
    sums_KFPN = log_sums_KR.unflatten(1, (-1, shared)).transpose(1, 2).index_select(2, index_n)
    # What the kernel did not write may be anything, so it is chosen away and not multiplied by 0.
    result_KFPNV = result_KFPNV.where(has_piece_PN1, 0.0)
    sums_KFPN = sums_KFPN.unflatten(2, (pieces, rows)).where(has_piece_PN1[..., 0], float("-inf"))
    if pieces == 1:
        return result_KFPNV[:, :, 0], sums_KFPN[:, :, 0]
    total_KFN = sums_KFPN.logsumexp(2)
    share_KFPN = (sums_KFPN - total_KFN[:, :, None]).exp().where(has_piece_PN1[..., 0], 0.0)
    return (result_KFPNV.to(share_KFPN.dtype) * share_KFPN[..., None]).sum(2), total_KFN


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
        if not is_supported(scoring, keys_KSD, values_KSV):
            yield from over_views_one_by_one(query_KFND, keys_KSD, values_KSV, layout, scoring)
            return
        heads, device = query_KFND.shape[:2], query_KFND.device
        for rows_n, launch in layout.once(
            lambda: [_placed(each, device) for each in launches_over(layout.views, *heads)]
        ):
            yield rows_n, *over_launch(self._varlen, launch, query_KFND, keys_KSD, values_KSV, scoring)


def _placed(launch: Launch, device: torch.device) -> tuple[torch.Tensor, PlacedLaunch]:
    """The rows that have a piece, and the launch for these."""
    index_PN, has_piece_PN = launch.piece_index(int(launch.rows_T.max()) + 1, launch.most_pieces)
    rows_n = np.flatnonzero(has_piece_PN.any(0))
    return torch.from_numpy(rows_n).to(device), PlacedLaunch(
        rows_T=torch.from_numpy(launch.rows_T).to(device),
        query_offsets=torch.from_numpy(launch.query_offsets).to(device),
        key_offsets=torch.from_numpy(launch.key_offsets).to(device),
        index_PN=torch.from_numpy(index_PN[:, rows_n]).to(device),
        has_piece_PN1=torch.from_numpy(has_piece_PN[:, rows_n, None]).to(device),
        most_queries=launch.most_queries,
        most_keys=launch.most_keys,
    )


def _try(kernel: VarlenAttention, device: torch.device, dtype: torch.dtype) -> None:
    """Launches it once as passes do: keys lie head by head, and behind a gap. Raises `RuntimeError` where a head does
    not see the values of its own keys."""
    heads, dim = 2, 16
    query_TKD = torch.zeros(3, heads, dim, dtype=dtype, device=device)
    keys_SKD = torch.zeros(heads, 4, dim, dtype=dtype, device=device).transpose(0, 1)
    values_SKD = keys_SKD + torch.arange(heads, dtype=dtype, device=device)[:, None]
    queries, keys = (torch.tensor(ends, dtype=torch.int32, device=device) for ends in ([0, 0, 3], [0, 2, 4]))
    result_TKD, log_sums_KT = kernel(query_TKD, keys_SKD, values_SKD, queries, keys, 3, 2, scale=1.0)
    seen, log_sums = result_TKD[-1, :, 0].tolist(), log_sums_KT.flatten().tolist()
    if seen != [0, 1] or any(abs(each - log(2)) > _TOLERANCE for each in log_sums):
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

            kernel = partial(varlen_attn, return_aux=AuxRequest(lse=True))
            _try(kernel, device, dtype)
            return kernel
        except ImportError:
            missing = "this torch has none"
        # Releases of torch differ in its arguments, builds in the GPUs that they have it for.
        except Exception as refusal:
            missing = f"it does not run here ({(str(refusal) or type(refusal).__name__).splitlines()[0]})"
    _log.warning("no variable-length attention on %s: %s; passes take more launches without it", device, missing)
    return None
