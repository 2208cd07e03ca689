"""The names of the weights modes, what a weight takes in each, and how files and tensors of weights are called. Plain
data: no torch, so that commands and doctors may ask."""

from collections.abc import Mapping, Sequence

from common.protocol.errors import MisuseError

AS_IS, INT8, INT4 = "as-is", "int8", "int4"

QUANTISED: Mapping[str, int] = {INT8: 8, INT4: 4}
"""Bits of a weight in each mode that quantises."""

WEIGHTS_SUFFIX = ".safetensors"
"""Of the files with weights."""

MODES = (AS_IS, *QUANTISED)

GROUP = 32
"""Consecutive weights of a row that share a scale and a zero in int4. Of the sizes that torch's kernel takes, none is
faster, and none is as exact."""

SCALE_BYTES = 2
"""Of a scale or a zero: bfloat16, which the kernels read."""

SCALES_SUFFIX = ".scales"
"""Of the tensor of a quantised weight's scales, behind the weight's own name."""

_LEAST_ROWS = 32


def check_weights(mode: str) -> None:
    """Raises MisuseError for a weights mode that does not exist."""
    if mode not in MODES:
        raise MisuseError(f"weights cannot be loaded as '{mode}'; choose from: {', '.join(MODES)}")


def is_quantisable(name: str, shape: Sequence[int], is_floating: bool) -> bool:
    """Whether a tensor of this name is the matrix of a linear layer or an embedding that kernels can compute with.

    Routers of experts are left out: a small error there sends a token to another expert.
    """
    owner, _, own = name.rpartition(".")
    is_router = owner.rpartition(".")[2] in ("gate", "router")
    fits = len(shape) == 2 and shape[0] >= _LEAST_ROWS and shape[1] >= GROUP
    return is_floating and fits and own == "weight" and not is_router


def padded(columns: int) -> int:
    """The columns of a matrix that is filled up to whole groups."""
    return -(-columns // GROUP) * GROUP


def matrix_bytes(mode: str, rows: int, columns: int) -> int:
    """What a quantised matrix takes, its scales included."""
    numbers = rows * padded(columns)
    scales = rows if mode == INT8 else 2 * numbers // GROUP
    return numbers * QUANTISED[mode] // 8 + SCALE_BYTES * scales
