"""Whether a draft model's weights fit into memory, told before they are loaded. Knows bundles' files and no server."""

from pathlib import Path

from common.bundle import TAIL_FOLDER
from common.draft_kinds import DRAFT_KINDS
from common.models.errors import CheckpointError
from common.programs.machine import format_bytes, free_memory_bytes
from common.weight_only.needs import StoredTensor, last_layers, memory_bytes, number_bytes, read_file_header


class TooLargeError(CheckpointError):
    """The weights need more memory than is free."""


def needed_bytes(bundle: Path, kind: str, layers: int, weights: str, dtype: str) -> int:
    """For the weights of a bundle that is in the mode `weights` already, with `layers` of the target's layers.

    Files that cannot be read count nothing: loading them tells what is wrong.
    """
    width = number_bytes(dtype)
    total = 0
    for file in (*bundle.glob("*.safetensors"), *(bundle / TAIL_FOLDER).glob("*.safetensors")):
        tensors = _tensors(file)
        if file.parent.name == TAIL_FOLDER:
            tensors = last_layers(tensors, layers)
        elif kind in DRAFT_KINDS and DRAFT_KINDS[kind].runs_target_layers:
            tensors = {name: each for name, each in tensors.items() if name.startswith(f"{layers}.")}
        total += memory_bytes(tensors, weights, width)
    return total


def check_memory(bundle: Path, draft: str, kind: str, layers: int, device: str, weights: str, dtype: str) -> None:
    """Raises TooLargeError if the weights need more memory than is free; nothing where that is unknown."""
    needed, free = needed_bytes(bundle, kind, layers, weights, dtype), free_memory_bytes(device)
    if free and needed > free:
        fewer = ", fewer --layers," if layers else ""
        raise TooLargeError(
            f"the draft model '{draft}' needs {format_bytes(needed)} of memory for its weights ({weights}), and "
            f"{format_bytes(free)} are free; choose --weights int4{fewer} or another --draft."
        )


def _tensors(file: Path) -> dict[str, StoredTensor]:
    try:
        return read_file_header(file)
    except (OSError, ValueError):
        return {}
