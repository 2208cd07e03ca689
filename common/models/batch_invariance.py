"""How many rows a pass must be a multiple of, so that no row's result depends on the rows beside it: measured with the
model at hand, because it is a property of kernels, which processors, shapes and thread counts choose.

Attention is `batch_invariant_attention.py`'s; here are the layers around it. Each kind of linear layer, norm and
activation computes the same rows in calls of many sizes, and packed passes the same text in different pieces, beside
other sessions and as nodes of a tree. All bits must be equal. Results in few bits hide the order of summation, so
linear layers are tried with weights for which every sum would be 0 without rounding: what is left is rounding alone.
How many rows an expert gets is for its router to say, so that the rows of its products are filled up
(`expert_rows.py`). Grouped kernels compute all experts in one call, in which the position of one's rows depends on the
others' number; batch-invariant passes run one expert after another ("eager"), whose products can be measured.

It may not know families, options or who asks.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from common.models.batch_invariant_attention import BatchInvariantAttention
from common.models.expert_rows import WholeBlocks, compute_whole_blocks, experts_of, undo_whole_blocks
from common.models.packed import PackedModel
from common.models.page_tasks import PAGE
from common.models.segment import Segment

MULTIPLES = (1, 4, 16, 64)
"""What is tried, in this order. On an AMD EPYC (Zen 5) float16 needs 1, bfloat16 1, 16 or, for routers, 64, float32 4,
or 16 with two threads; on an Intel Xeon with AMX float16 and bfloat16 16 or, of experts, 64, float32 4 or 16."""

_ROWS = (1, 2, 3, 4, 6, 8, 16, 24, 33, 64, 100, 128, 200, 256, 512)
_MOST_OUTPUTS = 32_768
"""Of a probe: a head may have several times as many columns."""
_OUTLIER, _OUTLIERS_APART = 20.0, 7
"""Some rows are so much larger: quantised layers may choose a scale, or the columns that they leave in half precision
(above 6 in LLM.int8, Dettmers et al. 2022), for all rows of a call."""
_TEXT = PAGE + 8
_NODES = 7
"""The last tokens of the text, which are also computed one by one and as nodes."""

_NOTICED = 13
"""Tokens of the pass that shows which layers there are. It is a prime: a layer whose number of rows is no multiple of
it computes some rows of a pass alone, as experts do."""

RowWise: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, eq=False)
class _Probe:
    """A function of rows, and rows `[most rows, features]` for it. `any_count`: the model calls it with any number of
    rows, whatever a pass has. `of_experts`: its products are filled up to a multiple."""

    compute: RowWise
    rows: torch.Tensor
    any_count: bool = False
    of_experts: bool = False


@torch.inference_mode()
def row_multiple(model: PreTrainedModel) -> int | None:
    """The first of `MULTIPLES` with which all agrees; `None` where none does. Passes take over the model.

    Where there is one, the model's experts stay as they were measured: eager, in whole blocks of so many rows."""
    experts = model.get_experts_implementation()
    model.set_experts_implementation("eager")
    probes = list(_probes(model))
    for multiple in MULTIPLES:
        if all(_is_row_wise(probe, multiple) for probe in probes):
            compute_whole_blocks(model, multiple)
            if _passes_agree(model, multiple):
                return multiple
            undo_whole_blocks(model)
    model.set_experts_implementation(experts)
    return None


def _is_row_wise(probe: _Probe, multiple: int) -> bool:
    with WholeBlocks(multiple) if probe.of_experts else nullcontext():
        return is_row_wise(probe.compute, probe.rows, 1 if probe.any_count else multiple)


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


def _probes(model: PreTrainedModel) -> Iterator[_Probe]:
    """One for each kind and shape of the model's row-wise layers, and of its experts' matrices."""
    found: dict[tuple[Any, ...], _Probe] = {}
    any_count: set[tuple[Any, ...]] = set()
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
        if rows.shape[:-1].numel() % _NOTICED:
            any_count.add(kind)
        if kind in found:
            return
        if type(module) is nn.Linear and type(module.weight) is nn.Parameter:
            weights, inputs = _cancelling(module.weight, random)
            bias = None if module.bias is None else module.bias.new_zeros(len(weights))
            found[kind] = _Probe(lambda entering: linear(entering, weights, bias), inputs.to(rows))
        else:
            inputs = random(max(_ROWS), rows.shape[-1])
            inputs[::_OUTLIERS_APART] *= _OUTLIER
            found[kind] = _Probe(module, inputs.to(rows))

    packed = PackedModel(model, _NOTICED)
    hooks = [each.register_forward_hook(notice) for each in model.modules() if not list(each.children())]
    try:
        chain = range(_NOTICED)
        packed.forward([Segment(_text(model, _NOTICED), chain, range(-1, _NOTICED - 1), wanted=chain)])
    finally:
        for hook in hooks:
            hook.remove()
    yield from (replace(probe, any_count=kind in any_count) for kind, probe in found.items())
    yield from _mixture_probes(model, random)


def _mixture_probes(model: PreTrainedModel, random: Callable[..., torch.Tensor]) -> Iterator[_Probe]:
    """Of mixtures of experts, one for each shape of a matrix. Experts' are parameters of three dimensions, which some
    families store transposed; those of routers belong to no linear layer."""
    mixtures = set(experts_of(model))
    experts: dict[torch.Size, nn.Parameter] = {}
    routers: dict[torch.Size, nn.Parameter] = {}
    for module in model.modules():
        own = [each for each in module.parameters(recurse=False) if each.is_floating_point()]
        if module in mixtures:
            experts |= {each.shape[1:]: each for each in own if each.dim() == 3}
        elif not isinstance(module, nn.Linear | nn.Embedding):
            routers |= {each.shape: each for each in own if each.dim() == 2}
    for weight in routers.values():
        weights, inputs = _cancelling(weight, random)
        yield _Probe(partial(linear, weight=weights), inputs)
    for weight in experts.values():
        weights, inputs = _cancelling(weight[0], random)
        yield _Probe(partial(linear, weight=weights), inputs, any_count=True, of_experts=True)
        weights, inputs = _cancelling(weight[0].T, random)
        multiply = partial(torch.matmul, other=weights.T.contiguous())
        yield _Probe(multiply, inputs, any_count=True, of_experts=True)


def _cancelling(weight: torch.Tensor, random: Callable[..., torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights like these, at most so many outputs, and rows for them, with which every sum is 0 but for rounding: each
    product comes twice, with both signs."""
    outputs, features = min(weight.shape[0], _MOST_OUTPUTS), weight.shape[1]
    half, order = features // 2, torch.randperm(features // 2 * 2, generator=torch.Generator().manual_seed(1))
    rows, weights = random(max(_ROWS), half), random(outputs, half)
    rows = torch.cat([rows, rows, torch.zeros(len(rows), features % 2)], 1)
    weights = torch.cat([weights, -weights, torch.zeros(outputs, features % 2)], 1)
    rows[:, : 2 * half], weights[:, : 2 * half] = rows[:, order], weights[:, order]
    return weights.to(weight), rows.to(weight)


def _passes_agree(model: PreTrainedModel, multiple: int) -> bool:
    """Whether the logits of a text's last tokens are the same however the text is computed."""
    packed = PackedModel(model, 2 * _TEXT + 40, backend=BatchInvariantAttention(), row_multiple=multiple)
    text = _text(model, _TEXT)
    read = _TEXT - _NODES
    results = [
        _in_pieces(packed, text, [read, *[1] * _NODES]),
        _in_pieces(packed, text, [40, _TEXT - 40], beside=3),
        _in_pieces(packed, text, [read - 30, 25, 5, _NODES], beside=40),
        _as_nodes(packed, text),
    ]
    return all(torch.equal(result, results[0]) for result in results[1:])


def _text(model: PreTrainedModel, length: int) -> list[int]:
    vocabulary = int(model.config.vocab_size)
    return [(1009 * index + 97) % vocabulary for index in range(length)]


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
