"""Whether packed passes compute what a model computes by itself: measured with a short text when it is loaded.

It may not know families. What agrees is run, whatever it is called; what does not is refused with the difference.

The text. A chain of 32 tokens is answered in pieces (17, 12, then single tokens), and in the same rows a tree of 11
nodes, with siblings and branches that share a prefix, below 3 tokens of a second session. Expected are the logits of
the model's own forward on the chain and on each path from root to leaf. Contexts are short on purpose: in a long one, a
token that should be hidden has so small a weight that rounding could explain what it changes. For the same reason
windows and chunks of attention are narrowed to 5 positions, for both sides, while the text is answered.

The tolerance. A row's error is the root mean square of its differences over the vocabulary, in units of the standard
deviation of all expected logits, so that neither the vocabulary's size nor scaled logits matter. Largest row over 25
random checkpoints without experts and the demo target (2026-11-22, on a CPU):

    dtype                             float32    float16    bfloat16
    own forward, eager against sdpa   0.0000026  0.0098     0.095
    packed pass against own forward   0.0000029  0.0066     0.030
    tolerance                         0.001      0.02       0.06
    smallest of wrong passes          0.13       0.13       0.13

Wrong passes were those that see siblings, see one position beyond a window, count positions from the next one, number
nodes instead of levels, or drop scaling, caps or sinks. A pass is nearer to the own forward than eager attention is, as
both use the same kernels. float64 has float32's tolerance, because families compute norms and softmax in float32.

In half precision a quarter of the rows of each form may differ by more. In a model with experts a rounding error may
change which experts a token goes to, in its own forward as well as in passes (largest row 0.75 between eager and sdpa),
and where a quantisation rounds activations to int8, 23% of the rows were beyond between eager and sdpa, 2% in passes.
Each of the wrong passes changes at least 45% of the rows of a form.

A tree has few rows, and a token above it that goes to another expert changes all of them. So what one text would refuse
in half precision is refused by the rows of eight together: wrong passes change at least 64% of a form's then. Of 32
random models with 4 or 16 experts in bfloat16 (Phi-MoE, Granite-MoE, JetMoE, Mixtral, 2026-11-26) one text refused 7,
eight refused 2, in which 43% and 51% of a tree's rows were beyond.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from common.memory import is_out_of_memory
from common.models.attention import take_over
from common.models.attention_backend import backend_for
from common.models.batch_invariant_attention import BatchInvariantAttention
from common.models.errors import CheckpointError
from common.models.packed import PackedModel
from common.models.segment import Segment
from common.protocol.plain import plain

TOLERANCES = {torch.float64: 1e-3, torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.06}

_PIECES = (17, 12, 1, 1, 1)
"""The chain is answered in these."""
_CHAIN = sum(_PIECES)
_PAST = 3
"""Tokens above the tree."""
_PARENTS = (-1, -1, 0, 0, 1, 2, 3, 4, 5, 6, 7)
_LEAVES = (8, 9, 10)
_WINDOW = 5
_WINDOWS = ("sliding_window", "attention_chunk_size")
"""What configurations and layers call the number of positions that a query looks back."""
_SHORTEST_VIEW = 2
"""So short that even these contexts are attended to on views of the pool wherever a longer one would be."""
_EXCUSED = 0.25
"""The share of rows that may differ in half precision."""
_TEXTS = 8
"""By so many is refused in half precision."""
_TEXT_DISTANCE = 211
"""Between the first tokens of two texts. It is a prime and exceeds what a text takes, so that none repeats another."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Logits in float32, of one text or of several in order: `chain [32, vocabulary]` and `tree [11, vocabulary]`."""

    chain: torch.Tensor
    tree: torch.Tensor


def check_agreement(model: PreTrainedModel, *, prepacked: bool = False, batch_invariant: bool = False) -> None:
    """Compares the model's own forward with passes, which take the model over. `prepacked` is that of `PackedModel`;
    `batch_invariant` also compares passes with batch-invariant attention.

    Raises `CheckpointError` where they differ by more than rounding, or where the model does not run in passes.
    """
    vocabulary, attention = int(model.config.vocab_size), model.config._attn_implementation
    with narrowed(model), _refusing(model):
        expected = own_answers(model, vocabulary)
        backends = [
            backend_for(model.device, model.dtype, _SHORTEST_VIEW),
            *([BatchInvariantAttention()] if batch_invariant else []),
        ]
        slots = _CHAIN + _PAST + len(_PARENTS)
        ways = [PackedModel(model, slots, backend=backend, prepacked=prepacked) for backend in backends]
        for packed in ways:
            computed = packed_answers(packed, vocabulary)
            try:
                compare(model, expected, computed)
            except CheckpointError:
                if model.dtype.itemsize >= 4:
                    raise
                # What is prepacked is in float32, so that the model's own forward is still what it was.
                model.set_attn_implementation(attention)
                owns = [expected, *(own_answers(model, vocabulary, text) for text in range(1, _TEXTS))]
                take_over(model)
                others = [packed_answers(packed, vocabulary, text) for text in range(1, _TEXTS)]
                compare(model, _joined(owns), _joined([computed, *others]))


@contextmanager
def _refusing(model: PreTrainedModel) -> Iterator[None]:
    """A layout that passes do not fit fails in any way: inside the block, such is a `CheckpointError`."""
    try:
        yield
    except (CheckpointError, ImportError):
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise CheckpointError(
            f"the model type '{plain(model.config.model_type, 40)}' does not run in packed passes "
            f"({type(error).__name__}: {plain(str(error), 200)}); choose another checkpoint"
        ) from error


@torch.inference_mode()
def own_answers(model: PreTrainedModel, vocabulary: int, text: int = 0) -> Answers:
    """What the model says by itself on the chain and on each path of the tree."""
    above, nodes = _tokens(vocabulary, _PAST, 50, text), _tokens(vocabulary, len(_PARENTS), 100, text)
    paths = [_path(leaf) for leaf in _LEAVES]
    texts = [above + [nodes[node] for node in path] for path in paths]
    chain = _own(model, [_tokens(vocabulary, _CHAIN, 0, text)])[0]
    of_paths = _own(model, texts)[:, _PAST:]
    rows = {
        node: of_path[depth] for of_path, path in zip(of_paths, paths, strict=True) for depth, node in enumerate(path)
    }
    return Answers(chain, torch.stack([rows[node] for node in range(len(_PARENTS))]))


def packed_answers(packed: PackedModel, vocabulary: int, text: int = 0) -> Answers:
    """The same by passes, the tree beside a token of the chain in one row."""
    tokens = _tokens(vocabulary, _CHAIN, 0, text)
    above = Segment(_tokens(vocabulary, _PAST, 50, text), range(_CHAIN, _CHAIN + _PAST), range(-1, _PAST - 1))
    first_node = _CHAIN + _PAST
    tree = Segment(
        _tokens(vocabulary, len(_PARENTS), 100, text),
        range(first_node, first_node + len(_PARENTS)),
        _PARENTS,
        above.slots,
        range(len(_PARENTS)),
    )
    beside: dict[int, Segment] = {1: above, 2: tree}
    chain, nodes, start = [], torch.empty(0), 0
    for turn, count in enumerate(_PIECES):
        piece = range(start, start + count)
        segment = Segment(tokens[start : start + count], piece, range(-1, count - 1), range(start), range(count))
        second = [beside[turn]] if turn in beside else []
        logits = packed.forward([segment, *second]).logits.float()
        chain.append(logits[:count])
        if second == [tree]:
            nodes = logits[count:]
        start += count
    return Answers(torch.cat(chain), nodes)


def _joined(answers: Sequence[Answers]) -> Answers:
    return Answers(torch.cat([each.chain for each in answers]), torch.cat([each.tree for each in answers]))


def row_errors(expected: torch.Tensor, computed: torch.Tensor, spread: float) -> torch.Tensor:
    """`[rows]`: root mean square differences of logits, in units of `spread`."""
    return (computed - expected).square().mean(-1).sqrt() / max(spread, torch.finfo(torch.float32).tiny)


def compare(model: PreTrainedModel, expected: Answers, computed: Answers) -> None:
    """Raises `CheckpointError` where they differ by more than rounding in one of their forms."""
    known = f"the model type '{plain(model.config.model_type, 40)}'"
    if not (expected.chain.isfinite().all() and expected.tree.isfinite().all()):
        raise CheckpointError(
            f"{known} computes logits that are not finite in {_name(model.dtype)}; choose another dtype, or fetch the "
            "checkpoint again"
        )
    spread = float(torch.cat([expected.chain, expected.tree]).std())
    tolerance = TOLERANCES[model.dtype]
    excused = _EXCUSED if model.dtype.itemsize < 4 else 0.0
    depths = [len(_path(node)) - 1 for node in range(len(_PARENTS))]
    forms = (
        ("chunk", expected.chain, computed.chain, range(_CHAIN)),
        ("tree", expected.tree, computed.tree, [_PAST + n for n in depths]),
    )
    for form, wanted, found, positions in forms:
        errors = row_errors(wanted, found, spread)
        # Not a number is beyond every tolerance.
        beyond = int((~(errors <= tolerance)).sum())
        if beyond > excused * len(errors):
            row = int(errors.nan_to_num(torch.inf).argmax())
            largest, position = float((found[row] - wanted[row]).abs().max()), positions[row % len(positions)]
            raise CheckpointError(
                f"packed passes do not agree with {known}: the logits of a {form} differ by up to {largest:.3g} at "
                f"position {position}, {float(errors[row]):.2g} times their spread where rounding in "
                f"{_name(model.dtype)} explains {tolerance:g}; choose another checkpoint"
            )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _own(model: PreTrainedModel, texts: Sequence[Sequence[int]]) -> torch.Tensor:
    ids = torch.tensor(texts, device=model.device)
    logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits
    return logits.float()


def _tokens(vocabulary: int, count: int, first: int, text: int) -> list[int]:
    first += text * _TEXT_DISTANCE
    return [(1009 * index + 97) % min(vocabulary, 10_000) for index in range(first, first + count)]


def _path(node: int) -> list[int]:
    """A node's ancestors and itself, the oldest first."""
    return [] if node < 0 else [*_path(_PARENTS[node]), node]


@contextmanager
def narrowed(model: PreTrainedModel) -> Iterator[None]:
    """Narrows the windows of all layers inside the block."""
    holders: dict[int, object] = {}
    for module in model.modules():
        for each in (module, getattr(module, "config", None)):
            holders[id(each)] = each
    before = []
    for holder in holders.values():
        # Where windows differ by layer, transformers lets nobody ask the whole model's configuration for one.
        held = getattr(holder, "__dict__", {})
        for name in _WINDOWS:
            size = held.get(name)
            if type(size) is int and size > _WINDOW:
                before.append((holder, name, size))
                setattr(holder, name, _WINDOW)
    try:
        yield
    finally:
        for holder, name, size in before:
            setattr(holder, name, size)
