"""Whether a loaded model's passes are replayed as graphs: where the device can, and replays agree with launched passes.

It may not know how passes are captured, nor sessions.
"""

from transformers import PreTrainedModel

from common.models.agreement import compare, narrowed, packed_answers
from common.models.attention_cuda import find_varlen
from common.models.attention_layout import SHORTEST_VIEW
from common.models.bucket_attention import BucketAttention
from common.models.capture import CudaCapture
from common.models.packed import PackedModel
from common.models.pass_graphs import PassGraphs, say_once

_CAPACITY = 64
"""Of the pool for the text of `agreement.py`."""
_SHORTEST_CHECKED_VIEW = 2
_ANSWERS = 5
"""A shape is replayed without a launched pass beside it from its fourth sight on."""


def graphs_of(model: PreTrainedModel) -> PassGraphs | None:
    """For a model whose passes are not batch-invariant: the pages of those have too many shapes. None where graphs are
    impossible or do not agree, which is said; nothing is raised for it."""
    if model.device.type != "cuda":
        say_once("the target is not on a GPU")
        return None
    varlen = find_varlen(model.device, model.dtype)
    if varlen is None:
        say_once("there is no variable-length attention here")
        return None
    try:
        capture = CudaCapture(model.device)
        checked = PassGraphs(capture, BucketAttention(varlen, _SHORTEST_CHECKED_VIEW))
    except RuntimeError as error:
        say_once(str(error).splitlines()[0])
        return None
    check_replays(model, checked)
    return None if checked.is_given_up else PassGraphs(capture, BucketAttention(varlen, SHORTEST_VIEW))


def check_replays(model: PreTrainedModel, graphs: PassGraphs) -> None:
    """Gives `graphs` up where the text of `agreement.py`, answered with them, fails or is not what launched passes
    answer. That is another attention, so rounding is allowed for; that a replay computes what was captured, `graphs`
    compare to the bit."""
    vocabulary = int(model.config.vocab_size)
    with narrowed(model):
        expected = packed_answers(PackedModel(model, _CAPACITY), vocabulary)
        try:
            replayed = PackedModel(model, _CAPACITY, graphs=graphs)
            for _ in range(_ANSWERS):
                compare(model, expected, packed_answers(replayed, vocabulary))
        # Launched passes work, whatever fails here.
        except Exception as error:
            graphs.give_up(f"the check of graphs failed with {type(error).__name__}: {error}")
