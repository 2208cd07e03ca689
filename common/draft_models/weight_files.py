"""The weights of a draft model on disk: one file, shards with an index, or the file of published heads.

What may live here: finding these files, and reading tensors by name. It may not know any layout or network.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from common.models.errors import CheckpointError
from common.models.source import HEAD_WEIGHTS, SHARD_INDEX, WEIGHTS, refuse_pickled, weight_files
from common.weight_only.files import read_mapped


def draft_weight_files(directory: Path) -> list[Path]:
    """Where a draft's weights lie; of several names, the first that is there counts. Raises CheckpointError where there
    are none, or only as pickle, or where one of several files is missing."""
    if (directory / WEIGHTS).is_file() or (directory / SHARD_INDEX).is_file():
        return weight_files(directory)
    heads = [directory / name for name in HEAD_WEIGHTS if (directory / name).is_file()]
    if heads:
        return heads[:1]
    refuse_pickled(directory)
    raise CheckpointError(f"{directory} has no weights as safetensors; put its {WEIGHTS} there")


def tensor_names(directory: Path) -> set[str]:
    """Those of a draft's weights; none where a file is missing or broken, which loading them tells."""
    names: set[str] = set()
    try:
        for file in draft_weight_files(directory):
            with safe_open(file, framework="pt") as source:
                names |= set(source.keys())
    except (CheckpointError, OSError, SafetensorError):
        return set()
    return names


def read_tensors(directory: Path, name: str | None = None, prefix: str = "") -> dict[str, torch.Tensor]:
    """The tensors of a file by name, by default of the draft's weights. Where names begin with `prefix`, only those are
    read: a file may hold the target's weights beside the draft's.

    Raises CheckpointError where a file is missing or broken.
    """
    files = draft_weight_files(directory) if name is None else [directory / name]
    tensors: dict[str, torch.Tensor] = {}
    has_prefix = bool(prefix) and any(each.startswith(prefix) for each in tensor_names(directory))
    for file in files:
        try:
            held = read_mapped(file)  # of which what is not kept takes no memory
            tensors |= {each: held[each] for each in held if not has_prefix or each.startswith(prefix)}
        except (OSError, SafetensorError, ValueError) as error:
            raise CheckpointError(f"{file} is missing or broken; fetch or train the draft again") from error
    return tensors
