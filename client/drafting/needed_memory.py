"""What a draft model's weights take in memory, and refusing those that do not fit before they are loaded.

Knows headers of bundles' files and no server.
"""

from collections.abc import Mapping
from pathlib import Path

from common.bundle import TAIL_FOLDER
from common.counted import format_bytes
from common.draft_kinds import DRAFT_KINDS
from common.memory import free_memory_bytes
from common.models.errors import CheckpointError
from common.weight_only.modes import WEIGHTS_SUFFIX
from common.weight_only.needs import StoredTensor, last_layers, memory_bytes, number_bytes, read_file_header

Headers = Mapping[str, Mapping[str, StoredTensor]]
"""The tensors of each file of weights, by its path in the bundle."""


class TooLargeError(CheckpointError):
    """The weights need more memory than is free."""


def needed_bytes(headers: Headers, kind: str, layers: int | None, weights: str, width: int) -> int:
    """Loaded in the mode `weights`, with `layers` of the target's layers, None for the number that needs most; a number
    that is not quantised takes `width` bytes."""
    total = 0
    for path, tensors in headers.items():
        if path.startswith(f"{TAIL_FOLDER}/"):
            own = [tensors if layers is None else last_layers(tensors, layers)]
        elif kind in DRAFT_KINDS and DRAFT_KINDS[kind].runs_target_layers:
            own = _of_depths(tensors, layers)
        else:
            own = [tensors]
        total += max((memory_bytes(each, weights, width) for each in own), default=0)
    return total


def _of_depths(tensors: Mapping[str, StoredTensor], layers: int | None) -> list[Mapping[str, StoredTensor]]:
    """The tensors of each depth, one of which is in memory at a time; of `layers` alone, unless it is None."""
    depths = {name.partition(".")[0] for name in tensors} if layers is None else {str(layers)}
    return [{name: each for name, each in tensors.items() if name.startswith(f"{depth}.")} for depth in depths]


def read_headers(bundle: Path) -> Headers:
    """Files that cannot be read have no tensors: loading them tells what is wrong."""
    files = [file for folder in (bundle, bundle / TAIL_FOLDER) for file in folder.glob(f"*{WEIGHTS_SUFFIX}")]
    return {file.relative_to(bundle).as_posix(): _tensors(file) for file in files}


def check_memory(bundle: Path, draft: str, kind: str, layers: int, device: str, weights: str, dtype: str) -> None:
    """Raises TooLargeError if the weights need more memory than is free; nothing where that is unknown."""
    needed = needed_bytes(read_headers(bundle), kind, layers, weights, number_bytes(dtype))
    free = free_memory_bytes(device)
    if free and needed > free:
        fewer = ", fewer --layers," if layers else ""
        raise TooLargeError(
            f"the draft model '{draft}' needs {format_bytes(needed)} of memory for its weights ({weights}), and "
            f"{format_bytes(free)} are free; choose --weights int4{fewer} or another --draft"
        )


def _tensors(file: Path) -> dict[str, StoredTensor]:
    try:
        return read_file_header(file)
    except (OSError, ValueError):
        return {}
