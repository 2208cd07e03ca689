"""What a draft model's weights take in memory, with what it needs of the target, from its files' headers alone.

No torch, so that a doctor can ask about files that are far away. Knows neither clients nor servers.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from common.bundle import TAIL_FOLDER
from common.draft_kinds import DRAFT_KINDS
from common.weight_only.needs import StoredTensor, last_layers, memory_bytes, read_file_header

Headers = Mapping[str, Mapping[str, StoredTensor]]
"""The tensors of each file of weights, by its path in the bundle."""


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


def read_headers(own: Iterable[Path], tail: Iterable[Path]) -> Headers:
    """Of a draft model's files of weights and those of its tail. Files that cannot be read have no tensors: loading
    them tells what is wrong."""
    return {
        **{file.name: _tensors(file) for file in own},
        **{f"{TAIL_FOLDER}/{file.name}": _tensors(file) for file in tail},
    }


def _tensors(file: Path) -> dict[str, StoredTensor]:
    try:
        return read_file_header(file)
    except (OSError, ValueError):
        return {}
