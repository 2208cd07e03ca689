"""The files of a run, by name and checksum, and whether what is measured is kept apart from what is learned.

What may live here: checksums, and comparing prompts with samples. It may not know the formats of files, nor models.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.protocol.errors import MisuseError
from training.draft_models.chat import Sample

NamedSum = tuple[str, str]
"""A file's name and its sha256."""


@dataclass(frozen=True)
class Sources:
    """data: to learn from. held_out: of prompts to measure on; None where a share of the data is."""

    data: tuple[NamedSum, ...]
    held_out: NamedSum | None


def read_sources(data: Sequence[Path], held_out: Path | None) -> Sources:
    """Raises `MisuseError` where the file of prompts is one of the data's."""
    sources = Sources(tuple(map(named_sum, data)), named_sum(held_out) if held_out else None)
    for name, checksum in sources.data:
        if sources.held_out and checksum == sources.held_out[1]:
            raise MisuseError(
                f"--held-out {held_out} holds what {name} of --data does, so that nothing would be held out: name "
                "another file, or leave --held-out out to keep a share of the data for measuring"
            )
    return sources


def named_sum(path: Path) -> NamedSum:
    with path.open("rb") as file:
        return path.name, hashlib.file_digest(file, "sha256").hexdigest()


def count_learned(prompts: Sequence[Sequence[int]], samples: Sequence[Sample]) -> int:
    """The number of prompts that a sample begins with, whose answers are therefore learned."""
    asked = [np.array(prompt, dtype=np.int32).tobytes() for prompt in prompts]
    wanted, lengths = set(asked), {len(prompt) for prompt in prompts}
    begun = set[bytes]()
    for sample in samples:
        begun |= wanted & {sample.ids[:length].tobytes() for length in lengths}
    return sum(prompt in begun for prompt in asked)
