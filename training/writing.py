"""Errors of writing, such as those of a full disk, as one sentence. It may not know what is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from safetensors import SafetensorError

from common.protocol.errors import OutriderError

BEGUN_AGAIN = "make room, and start again"
CONTINUED = "make room, and the same command with --resume continues"


@contextmanager
def written(what: object, advice: str) -> Iterator[None]:
    """Raises `OutriderError` with `advice` where the block cannot write `what`, which is a path or words for it."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise OutriderError(f"{what} cannot be written: {reason}; {advice}") from error


def _reason(error: Exception) -> str | None:
    """In the system's words; None where writing is not what failed. Torch raises an error of its own while the system's
    is raised, and safetensors quotes it."""
    for each in (error, error.__context__):
        if isinstance(each, OSError):
            return each.strerror or str(each)
    quoted = re.search(r"I/O error: (.*?) \(os error \d+\)", str(error))
    return quoted[1] if quoted else None
