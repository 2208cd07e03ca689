"""How many rows a pass must be a multiple of, so that no row's result depends on the rows beside it: measured with the
model at hand, because it is a property of kernels, which processors, shapes and thread counts choose.

Attention is `exact_attention.py`'s; here are the layers around it. Each kind of linear layer, norm and activation
computes the same rows in calls of many sizes, and packed passes the same text in different pieces, beside other
sessions and as nodes of a tree. All bits must be equal. Results in few bits hide the order of summation, so linear
layers are tried with weights for which every sum would be 0 without rounding: what is left is rounding alone.

It may not know families, options or who asks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.functional import linear

from common.models.decoder import CausalLm
from common.models.exact_attention import ExactAttention
from common.models.packed import PackedModel
from common.models.page_tasks import PAGE
from common.models.segment import Segment

MULTIPLES = (1, 4, 16, 64)
"""What is tried, in this order. On an AMD EPYC (Zen 5) float16 needs 1, bfloat16 1 or 16, float32 4, or 16 with two
threads."""

_ROWS = (1, 2, 3, 4, 6, 8, 16, 24, 33, 64, 100, 128, 200, 256, 512)
_MOST_OUTPUTS = 32_768
"""Of a probe: a head may have several times as many columns."""
_TEXT = PAGE + 8
_NODES = 7
"""The last tokens of the text, which are also computed one by one and as nodes."""

RowWise: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, eq=False)
class _Probe:
    """A function of rows, and rows `[most rows, features]` for it."""

    compute: RowWise
    rows: torch.Tensor


@torch.inference_mode()
def row_multiple(model: CausalLm) -> int | None:
    """The first of `MULTIPLES` with which all agrees; `None` where none does. Passes take over the model."""
    probes = list(_probes(model))
    for multiple in MULTIPLES:
        if all(is_row_wise(probe.compute, probe.rows, multiple) for probe in probes) and _passes_agree(model, multiple):
            return multiple
    return None


def is_row_wise(compute: RowWise, rows: torch.Tensor, multiple: int) -> bool:
    """Whether calls of every number of rows that is a multiple give each row the same bits, in any place."""
    sizes = sorted({-(-size // multiple) * multiple for size in _ROWS})
    rows = rows[: sizes[-1]]
    whole = compute(rows)
    for size in sizes:
        last = len(rows) - size
        if not torch.equal(compute(rows[:size]), whole[:size]) or not torch.equal(compute(rows[last:]), whole[last:]):
            return False
    return True


def _probes(model: CausalLm) -> Iterator[_Probe]:
    """One for each kind and shape of the model's row-wise layers."""
    found: dict[tuple[Any, ...], _Probe] = {}
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    def notice(module: nn.Module, entering: tuple[Any, ...], leaving: Any) -> None:
        rows = entering[0] if len(entering) == 1 else None
        if not (isinstance(rows, torch.Tensor) and rows.is_floating_point() and isinstance(leaving, torch.Tensor)):
            return
        if leaving.shape[:-1] != rows.shape[:-1]:
            return
        kind = type(module), rows.shape[-1], leaving.shape[-1], rows.dtype
        if kind not in found:
            found[kind] = _probe(module, rows, min(leaving.shape[-1], _MOST_OUTPUTS), random)

    hooks = [each.register_forward_hook(notice) for each in model.modules() if not list(each.children())]
    try:
        PackedModel(model, 1).forward([Segment([0], [0], [-1], (), [0])])
    finally:
        for hook in hooks:
            hook.remove()
    yield from found.values()


def _probe(module: nn.Module, like: torch.Tensor, outputs: int, random: Callable[..., torch.Tensor]) -> _Probe:
    most_rows, features = max(_ROWS), like.shape[-1]
    if type(module) is not nn.Linear:
        return _Probe(module, random(1, most_rows, features).to(like)[0])
    # Each product comes twice, with both signs.
    half, order = features // 2, torch.randperm(features // 2 * 2, generator=torch.Generator().manual_seed(1))
    rows, weights = random(most_rows, half), random(outputs, half)
    rows = torch.cat([rows, rows, torch.zeros(most_rows, features % 2)], 1)
    weights = torch.cat([weights, -weights, torch.zeros(outputs, features % 2)], 1)
    rows[:, : 2 * half], weights[:, : 2 * half] = rows[:, order], weights[:, order]
    weights = weights.to(module.weight)
    bias = None if module.bias is None else torch.zeros(outputs).to(module.weight)
    return _Probe(lambda entering: linear(entering, weights, bias), rows.to(like))


def _passes_agree(model: CausalLm, multiple: int) -> bool:
    """Whether the logits of a text's last tokens are the same however the text is computed."""
    packed = PackedModel(model, 2 * _TEXT + 40, backend=ExactAttention(), row_multiple=multiple)
    vocabulary = int(model.config.vocab_size)
    text = [(1009 * index + 97) % vocabulary for index in range(_TEXT)]
    read = _TEXT - _NODES
    results = [
        _in_pieces(packed, text, [read, *[1] * _NODES]),
        _in_pieces(packed, text, [40, _TEXT - 40], beside=3),
        _in_pieces(packed, text, [read - 30, 25, 5, _NODES], beside=40),
        _as_nodes(packed, text),
    ]
    return all(torch.equal(result, results[0]) for result in results[1:])


def _in_pieces(packed: PackedModel, text: Sequence[int], pieces: Sequence[int], beside: int = 0) -> torch.Tensor:
    """`[_NODES, vocabulary]`, `beside` rows of another session in each pass."""
    rows, start = [], 0
    others = Segment(text[:beside], range(_TEXT, _TEXT + beside), range(-1, beside - 1)) if beside else None
    for count in pieces:
        piece = range(start, start + count)
        segment = Segment(text[start : start + count], piece, range(-1, count - 1), range(start), range(count))
        rows.append(packed.forward([others, segment] if others else [segment]).logits)
        start += count
    return torch.cat(rows)[-_NODES:]


def _as_nodes(packed: PackedModel, text: Sequence[int]) -> torch.Tensor:
    """The same as every other node of a tree, each beside a sibling with another token."""
    read = _TEXT - _NODES
    packed.forward([Segment(text[:read], range(read), range(-1, read - 1))])
    tokens = [token for right in text[read:] for token in (right, text[0])]
    parents = [-1, -1] + [2 * (index // 2) for index in range(2 * _NODES - 2)]
    slots = range(read, read + len(tokens))
    return packed.forward([Segment(tokens, slots, parents, range(read), range(0, len(tokens), 2))]).logits
