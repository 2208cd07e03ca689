"""Folders that are costly to make and are kept in the cache for later runs, whole or not at all.

It may not know what is in them.
"""

from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from common.atomic import atomic_folder, remove_abandoned
from common.models.errors import CheckpointError


def keep_folder(kept: Path, write: Callable[[Path], None], what: str) -> Path:
    """`kept`, filled now by `write` unless it was before. `what` it holds is for the error.

    Raises CheckpointError where it cannot be written, and what `write` raises.
    """
    remove_abandoned(kept)
    if kept.is_dir():
        return kept
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(kept) as partial:
            write(partial)
    except (OSError, SafetensorError) as error:
        # Another daemon may have been first.
        if not kept.is_dir():
            raise CheckpointError(
                f"{what} cannot be written to {kept.parent}; make room there, or set OUTRIDER_CACHE to another folder"
            ) from error
    return kept
