"""Refuses a draft model whose weights do not fit into memory, before they are loaded. Knows no server."""

from pathlib import Path

from common.bundle import TAIL_FOLDER
from common.counted import format_bytes
from common.draft_models.memory import Headers, needed_bytes, read_headers
from common.memory import free_memory_bytes
from common.models.errors import CheckpointError
from common.weight_only.modes import WEIGHTS_SUFFIX
from common.weight_only.needs import number_bytes


class TooLargeError(CheckpointError):
    """The weights need more memory than is free."""


def bundle_headers(bundle: Path) -> Headers:
    own, tail = (folder.glob(f"*{WEIGHTS_SUFFIX}") for folder in (bundle, bundle / TAIL_FOLDER))
    return read_headers(own, tail)


def check_memory(bundle: Path, draft: str, kind: str, layers: int, device: str, weights: str, dtype: str) -> None:
    """Raises TooLargeError if the weights need more memory than is free; nothing where that is unknown."""
    needed = needed_bytes(bundle_headers(bundle), kind, layers, weights, number_bytes(dtype))
    free = free_memory_bytes(device)
    if free and needed > free:
        fewer = ", fewer --layers," if layers else ""
        raise TooLargeError(
            f"the draft model '{draft}' needs {format_bytes(needed)} of memory for its weights ({weights}), and "
            f"{format_bytes(free)} are free; choose --weights int4{fewer} or another --draft"
        )
