"""FP8 weights that transformers expands to wrong numbers: it takes a block's side for the weight's over the number of
blocks, which is another where the last block of a side is not whole.

It may not load weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.models.errors import CheckpointError
from common.models.quantised import is_expanded, method_of
from common.models.source import QUANTISATION, weight_files
from common.weight_only.needs import StoredTensor, read_file_header

_USUAL = (128, 128)  # transformers', where a configuration gives none
_FP8 = ("F8_E4M3", "F8_E5M2")
_WEIGHT = ".weight"
_SCALES = (".scale", ".qscale_weight")
"""What some checkpoints call the scales of a `.weight`; with all others, `_scale_inv` follows the name."""


def check_whole_blocks(directory: Path, config: Mapping[str, Any], device: str, *, expanded: bool = False) -> None:
    """Raises CheckpointError where loading the checkpoint of this configuration to `device`, `expanded` or as it is,
    would give wrong numbers, or where a file of its weights is missing. It reads the files' headers."""
    if method_of(config) != "fp8" or not (expanded or is_expanded(config, device)):
        return
    sides = config[QUANTISATION].get("weight_block_size", _USUAL)
    if not isinstance(sides, list | tuple) or [type(side) for side in sides] != [int, int] or min(sides) < 1:
        return  # one scale for each weight, or settings that loading refuses
    found = next(_in_parts(_tensors(directory), sides), None)
    if found is not None:
        name, shape = found
        or_else = (
            "draft with a kind that runs none of its layers" if expanded else "serve it on a GPU that computes in FP8"
        )
        raise CheckpointError(
            f"the checkpoint in {directory} is quantised (fp8) in blocks of {sides[0]} by {sides[1]}, into which "
            f"{name} ({shape[-2]} by {shape[-1]}) does not divide, so that transformers would expand it to wrong "
            f"numbers; choose the checkpoint that it was made from, one that is quantised in another way, or {or_else}"
        )


def _tensors(directory: Path) -> dict[str, StoredTensor]:
    """All that the files list, without those of files that cannot be read: loading tells why."""
    tensors: dict[str, StoredTensor] = {}
    for file in weight_files(directory):
        try:
            tensors |= read_file_header(file)
        except (OSError, ValueError):
            continue
    return tensors


def _in_parts(tensors: Mapping[str, StoredTensor], sides: Sequence[int]) -> Iterator[tuple[str, Sequence[int]]]:
    """The names and shapes of the FP8 weights with several blocks along a side, of which the last is not whole."""
    for name, weight in tensors.items():
        scales = _scales_of(name, tensors)
        if weight.dtype not in _FP8 or scales is None or min(len(weight.shape), len(scales.shape)) < 2:
            continue
        along = zip(weight.shape[-2:], scales.shape[-2:], sides, strict=True)
        if any(size % side and 1 < count == -(-size // side) for size, count, side in along):
            yield name, weight.shape


def _scales_of(name: str, tensors: Mapping[str, StoredTensor]) -> StoredTensor | None:
    module = name.removesuffix(_WEIGHT)
    names = [f"{name}_scale_inv", *(module + scales for scales in _SCALES if module != name)]
    return next((tensors[each] for each in names if each in tensors), None)
