"""Loads the target: checks that it fits and that its passes agree, and chooses how they are computed.

Blocking torch code. It may not know sessions, trees or drafts.
"""

import logging
from collections.abc import Callable, Collection
from pathlib import Path

import torch
from transformers import PreTrainedModel

from common.models.agreement import check_agreement
from common.models.batch_invariance import row_multiple
from common.models.batch_invariant_attention import BatchInvariantAttention
from common.models.checkpoint import load_causal_lm
from common.models.errors import CheckpointError
from common.models.graphs_of_model import graphs_of
from common.models.packed import PackedModel
from common.models.pass_graphs import PassGraphs, say_once
from server.models.memory_needed import check_memory
from server.models.state_needs import StateNeeds
from server.passes.target import Target

_log = logging.getLogger(__name__)

_VARIANT = "on this device the target's numbers depend on how many tokens share a pass"


def load_target(
    path: str,
    *,
    device: str,
    dtype: str,
    capacity: int,
    threads: int,
    keep_hidden: bool = False,
    taps: Collection[int] = (),
    quantise: str = "",
    batch_invariant: bool | None = None,
    cuda_graphs: bool | None = None,
    ranks: int = 1,
    make_model: Callable[..., PackedModel] = PackedModel,
) -> Target:
    """Loads the weights, checks passes against the model's own forward, which also warms the kernels up, and reserves
    K/V for `capacity` tokens.

    `keep_hidden` and `taps` are those of `PackedModel`, `quantise` is that of `load_causal_lm`. `batch_invariant` asks
    for batch-invariant passes; `None` for those of half-precision models on processors that allow it. `cuda_graphs`
    asks for passes to be replayed, and what rules that out is said; `None` asks on a GPU, for one rank without
    batch-invariant passes. With more than one of `ranks` this process loads its part; all of them call this together,
    with the same arguments but `make_model`.

    Raises CheckpointError where something is amiss, passes do not agree, or the target does not fit on the device;
    what cannot fit is told before it is loaded.
    """
    if threads:
        torch.set_num_threads(threads)
    needs = StateNeeds(hidden_states=len(taps) + keep_hidden)
    check_memory(Path(path), device, dtype, capacity, quantise, needs, ranks)
    model = load_causal_lm(path, device, dtype, quantise, ranks)
    try:
        # The sum over ranks may depend on how many rows share a pass.
        is_batch_invariant = ranks == 1 and (model.dtype.itemsize < 4 if batch_invariant is None else batch_invariant)
        check_agreement(model, prepacked=True, batch_invariant=is_batch_invariant)
        multiple = row_multiple(model) if is_batch_invariant else None
        # What nobody asked for is no warning where it cannot be.
        may_replay = model.device.type == "cuda" and ranks == 1 and multiple is None
        is_replayed = may_replay if cuda_graphs is None else cuda_graphs
        graphs = _graphs(model, ranks, multiple) if is_replayed else None
        backend = None if multiple is None else BatchInvariantAttention()
        packed = make_model(model, capacity, keep_hidden, taps, backend, row_multiple=multiple or 1, graphs=graphs)
    except ImportError as error:
        # A kernel for quantised weights is looked for when it is needed first.
        raise CheckpointError(f"the target does not run on {device}: {str(error).splitlines()[0]}") from error
    except (RuntimeError, MemoryError) as error:
        raise CheckpointError(
            f"the target does not run on {device} in {dtype} with room for {capacity} tokens; "
            "choose another --device or --dtype, or lower --cache-tokens"
        ) from error
    if is_batch_invariant and multiple is None:
        if batch_invariant:
            raise CheckpointError(f"{_VARIANT}; choose --fast, another --device or --dtype")
        _log.warning(
            "%s: greedy answers may differ from plain decoding where two tokens are nearly as likely", _VARIANT
        )
    return Target(packed, is_batch_invariant=multiple is not None)


def _graphs(model: PreTrainedModel, ranks: int, row_multiple: int | None) -> PassGraphs | None:
    if ranks > 1:
        say_once("a sum over ranks cannot be captured everywhere")
        return None
    if row_multiple is not None:
        say_once("batch-invariant passes have too many shapes; choose --fast")
        return None
    return graphs_of(model)
