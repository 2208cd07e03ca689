"""Passes as captured graphs: one for each shape of a pass and of its layouts of attention, replayed on static buffers.

Each pass in a bucket is planned on the host. A shape gets buffers and a graph when it is seen for the second time, and
where that graph was dropped for others, after twice as many sights as before. Its plans are then sent to the device by
one copy, into the buffers that its graph reads. A graph's first replays are compared to the bit with launched passes on
the same buffers. Where something cannot be captured or differs, that is named once, all graphs are dropped, and the
caller launches all passes.

It may not know how attention is computed or what a bucket's sizes are.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from typing import Any

import torch

from common.models.attention_backend import AttentionBackend
from common.models.buckets import NoBucketError
from common.models.capture import Capture, Forward
from common.models.plan import PassPlan

_log = logging.getLogger(__name__)

MOST_GRAPHS = 128
MOST_BYTES = 256 << 20
"""Of their buffers. Graphs used last are kept; their results share memory."""

_MOST_SEEN = 1_024
"""Shapes whose sights are counted."""

_CHECKED_REPLAYS = 2
"""Of each graph: on the contents with which it was captured, and on others."""

_ALIGNMENT = 16
"""Bytes between the beginnings of buffers."""


@dataclass(frozen=True)
class _Sights:
    """Of a shape since its last graph. `wanted` of them bring it a graph; it doubles with each, or more shapes in turns
    than graphs are kept would all be captured again and again, which takes longer than to launch them."""

    count: int = 0
    wanted: int = 2


RunPass = Callable[[PassPlan], torch.Tensor]
"""The layers over a plan: last hidden states `[N, E]`."""


class PassGraphs:
    """The graphs of one model. One pass at a time."""

    def __init__(self, capture: Capture, backend: AttentionBackend):
        """`backend` computes attention with the shapes of the plan's bucket."""
        self.backend = backend
        self.is_given_up = False  # no pass is replayed any more
        self.replayed_passes = 0  # without a launched pass beside them
        self._capture: Capture | None = capture
        self._built: Sequence[Any] | None = None
        self._sights: OrderedDict[Hashable, _Sights] = OrderedDict()
        self._kept: OrderedDict[Hashable, _StaticPass] = OrderedDict()

    @property
    def buffer_bytes(self) -> int:
        return sum(each.nbytes for each in self._kept.values())

    def run(self, plan: PassPlan, device: torch.device, forward: RunPass) -> tuple[PassPlan, torch.Tensor]:
        """The pass of `plan`, which is in a bucket and on the host: the same plan on the device, where it lasts until
        the next pass, and its hidden states `[N, E]`. Raises `NoBucketError` where it has to be run without."""
        if self.is_given_up:
            raise NoBucketError
        try:
            if self._built is None:
                return self._learn(plan, device, forward)
            for build, positional, named in self._built:
                plan.attention.once(build, *positional, **dict(named))
            tensors: list[torch.Tensor] = []
            shapes = _flatten(_inputs(plan), tensors)
            kept = self._kept.get(shapes) or self._add(shapes, plan, tensors, device)
            self._kept.move_to_end(shapes)
            kept.fill(tensors)
            hidden = self._compute(kept, plan.rows, forward)
        except NoBucketError:
            raise
        # Whatever fails here, launched passes do not need it.
        except Exception as error:
            self.give_up(str(error).strip() or type(error).__name__)
            raise NoBucketError from error
        # Numbers of the host are this pass's own.
        return replace(kept.plan, rows=plan.rows, wanted=plan.wanted), hidden

    def give_up(self, reason: str) -> None:
        self.is_given_up = True
        self._capture = None  # the graphs' memory is its own, and may be what launched passes lack
        self._kept.clear()
        self._sights.clear()
        say_once(reason.splitlines()[0])

    def _learn(self, plan: PassPlan, device: torch.device, forward: RunPass) -> tuple[PassPlan, torch.Tensor]:
        """Runs the first pass as it is, which tells what layouts the layers ask for."""
        placed = _placed(plan, _rebuilt(_inputs(plan), iter([each.to(device) for each in _tensors(_inputs(plan))])))
        hidden = forward(placed)
        self._built = tuple(placed.attention.built)
        return placed, hidden

    def _add(
        self, shapes: Hashable, plan: PassPlan, tensors: Sequence[torch.Tensor], device: torch.device
    ) -> "_StaticPass":
        sights = self._sights.pop(shapes, _Sights())
        self._sights[shapes] = sights = replace(sights, count=sights.count + 1)
        if len(self._sights) > _MOST_SEEN:
            self._sights.popitem(last=False)
        if sights.count < sights.wanted:
            raise NoBucketError
        spans, nbytes = _spans(tensors)
        if nbytes > MOST_BYTES:
            raise NoBucketError
        while self._kept and (len(self._kept) >= MOST_GRAPHS or self.buffer_bytes + nbytes > MOST_BYTES):
            self._kept.popitem(last=False)
        self._sights[shapes] = _Sights(wanted=2 * sights.wanted)
        kept = self._kept[shapes] = _StaticPass(plan, tensors, spans, nbytes, device)
        return kept

    def _compute(self, kept: "_StaticPass", rows: int, forward: RunPass) -> torch.Tensor:
        if kept.unchecked == 0:
            self.replayed_passes += 1
            return kept.replayed().clone()
        launched = forward(kept.plan)  # which also warms kernels up before they are captured
        if kept.replay is None:
            assert self._capture is not None, "graphs are given up"
            kept.replay = self._capture(partial(forward, kept.plan))
        if not torch.equal(_bits(kept.replayed()[:rows]), _bits(launched[:rows])):
            self.give_up("what graphs compute differs from what passes compute without them")
        kept.unchecked -= 1
        return launched


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """As bytes, for comparisons: NaN equals nothing, so that one such row would pass for a difference."""
    return tensor.contiguous().view(torch.uint8)


@cache
def say_once(reason: str) -> None:
    """Why passes are launched kernel by kernel."""
    _log.warning("passes are not captured as CUDA graphs: %s; they take longer without", reason)


def _spans(tensors: Sequence[torch.Tensor]) -> tuple[list[slice], int]:
    """Where each lies in one buffer, and the buffer's bytes."""
    spans: list[slice] = []
    end = 0
    for tensor in tensors:
        spans.append(slice(end, end + tensor.nbytes))
        end += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
    return spans, end


class _StaticPass:
    """The buffers of passes of one shape on the device, and the plan that lies in them."""

    def __init__(
        self,
        plan: PassPlan,
        tensors: Sequence[torch.Tensor],
        spans: Sequence[slice],
        nbytes: int,
        device: torch.device,
    ):
        self.nbytes = nbytes
        self.replay: Forward | None = None
        self.unchecked = _CHECKED_REPLAYS
        self._spans = spans
        self._buffer = torch.zeros(nbytes, dtype=torch.uint8, device=device)
        views = (
            self._buffer[span].view(tensor.dtype).view(tensor.shape)
            for span, tensor in zip(spans, tensors, strict=True)
        )
        self.plan = _placed(plan, _rebuilt(_inputs(plan), views))

    def replayed(self) -> torch.Tensor:
        """Hidden states, until the next replay of any graph."""
        assert self.replay is not None, "nothing was captured"
        return self.replay()

    def fill(self, tensors: Sequence[torch.Tensor]) -> None:
        """One copy, which the host does not wait for. Its source is pinned memory that is taken anew for each pass, as
        torch reuses such memory once its copies are done."""
        packed = torch.zeros(len(self._buffer), dtype=torch.uint8, pin_memory=self._buffer.is_cuda)
        for span, tensor in zip(self._spans, tensors, strict=True):
            packed[span] = tensor.flatten().view(torch.uint8)
        self._buffer.copy_(packed, non_blocking=True)


@dataclass(frozen=True, eq=False)
class _Inputs:
    """What a pass's kernels read beside the model and its pool."""

    token_ids: torch.Tensor
    positions: torch.Tensor
    wanted_rows: torch.Tensor
    written_slots: torch.Tensor
    layouts: Mapping[Any, Any]


def _inputs(plan: PassPlan) -> _Inputs:
    attention = plan.attention
    return _Inputs(plan.token_ids, plan.positions, plan.wanted_rows, attention.written_slots, attention.built)


def _placed(plan: PassPlan, inputs: _Inputs) -> PassPlan:
    return replace(
        plan,
        token_ids=inputs.token_ids,
        positions=inputs.positions,
        wanted_rows=inputs.wanted_rows,
        attention=plan.attention.with_built(inputs.written_slots, inputs.layouts),
    )


def _tensors(held: Any) -> list[torch.Tensor]:
    tensors: list[torch.Tensor] = []
    _flatten(held, tensors)
    return tensors


def _flatten(held: Any, tensors: list[torch.Tensor]) -> Hashable:
    """Appends all tensors that `held` consists of; returns all else: shapes, dtypes and numbers of the host. Where two
    have the same, either may stand for the other once the contents of tensors are copied."""
    if isinstance(held, torch.Tensor):
        tensors.append(held)
        return held.dtype, held.shape
    if is_dataclass(held) and not isinstance(held, type):
        return type(held), *(_flatten(getattr(held, each.name), tensors) for each in fields(held))
    if isinstance(held, Mapping):
        return *held, *(_flatten(each, tensors) for each in held.values())
    if isinstance(held, list | tuple):
        return len(held), *(_flatten(each, tensors) for each in held)
    hash(held)
    return held  # type: ignore[no-any-return]


def _rebuilt(held: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """The same with other tensors, in the order of `_flatten`."""
    if isinstance(held, torch.Tensor):
        return next(tensors).view(held.shape)
    if is_dataclass(held) and not isinstance(held, type):
        return replace(held, **{each.name: _rebuilt(getattr(held, each.name), tensors) for each in fields(held)})
    if isinstance(held, Mapping):
        return {key: _rebuilt(each, tensors) for key, each in held.items()}
    if isinstance(held, list | tuple):
        return [_rebuilt(each, tensors) for each in held]
    return held
