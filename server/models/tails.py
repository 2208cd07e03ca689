"""Tails: the last layers of a target, which drafts with target-layer inference run. Written once, kept for later runs.

The tail of a large target has gigabytes. It may not know draft models or bundles.
"""

import shutil
import tempfile
from pathlib import Path

from safetensors import SafetensorError

from common.draft_models.tail import write_tail
from common.models.errors import CheckpointError


def keep_tail(target: Path, fingerprint: str, layers: int, cache: Path) -> Path:
    """The directory of the target's last `layers` layers, written now unless it was before.

    Raises CheckpointError where the target has fewer, or where the cache cannot be written.
    """
    kept = cache / "tails" / f"{fingerprint}-{layers}"
    if kept.is_dir():
        return kept
    partial: Path | None = None
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=kept.parent))
        write_tail(target, layers, partial)
        partial.rename(kept)
    except (OSError, SafetensorError) as error:
        # Another daemon may have been first.
        if not kept.is_dir():
            raise CheckpointError(
                f"the target's last layers cannot be written to {kept.parent}; make room there, or set OUTRIDER_CACHE "
                "to another folder."
            ) from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)
    return kept
