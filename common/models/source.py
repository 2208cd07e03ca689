"""Finds a checkpoint's files: in a local directory, or by hub id, downloaded into the hub's cache.

A local directory needs no network. It may not know what the files mean. It imports nothing heavy before a download, so
that a misspelt name is reported at once.
"""

import errno
import json
import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from common.models.errors import CheckpointError, HubError
from common.models.families import check_causal_lm

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
SHARD_INDEX = "model.safetensors.index.json"
QUANTISATION = "quantization_config"
"""The key of a checkpoint's configuration that says how its weights are stored in few bits."""

BITS: Mapping[str, int] = {"int8": 8, "int4": 4}
"""Bits of a weight, for each format to which weights can be quantised while they are loaded."""

VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.json")
"""Files with a vocabulary: transformers builds the tokenizer from the first that exists."""

HEAD_WEIGHTS = ("medusa_lm_head.safetensors", "hydra_lm_head.safetensors")
"""Medusa's and Hydra's heads alone, as their authors name them."""

_WEIGHT_PATTERNS = ("model*.safetensors", "exporter.safetensors", *HEAD_WEIGHTS)
"""A checkpoint's weights, a draft's server half, and published heads. Some repositories hold the same weights again
under other names."""

_PICKLED = ("pytorch_model*.bin", "*.bin", "*.pt", "*.pth", "*.pkl")
"""Names of weights that are never loaded, the likeliest first."""

_SAFETENSORS = "*.safetensors"
_TENSORS_ALONE = "which reads tensors alone"

_GGUF = ".gguf"
_NOT_READ = (
    "is not read here; give the model that it was made from, as a directory with config.json and safetensors or as a "
    "hub id"
)

_TEXT_FILES = ("*.json", "*.jinja", "*.model", "*.txt")


def checkpoint_directory(path_or_id: str | Path, *, with_weights: bool) -> Path:
    """The directory that holds the checkpoint; a hub id is fetched, its weights only where they are needed.

    Raises `CheckpointError` where there is no such directory or hub id, or where it has no configuration, `HubError`
    where the hub cannot be reached.
    """
    if not str(path_or_id):  # which would be the directory that the program was started in
        raise CheckpointError("the checkpoint's name is empty; give a directory or a hub id")
    directory = Path(path_or_id).expanduser()
    if directory.suffix.lower() == _GGUF and not directory.is_dir():
        raise CheckpointError(f"{path_or_id} is a GGUF file: GGUF {_NOT_READ}")
    is_on_hub = not directory.is_dir()
    if is_on_hub:
        directory = _fetch(str(path_or_id), with_weights)
    if not (directory / CONFIG).is_file():
        if any(file.suffix.lower() == _GGUF for file in directory.iterdir()) or "-gguf" in str(path_or_id).lower():
            raise CheckpointError(f"{path_or_id} holds no config.json, but GGUF: that {_NOT_READ}")
        raise CheckpointError(f"{path_or_id} is not a checkpoint directory: it has no {CONFIG}")
    if is_on_hub and with_weights and not any(directory.glob(_SAFETENSORS)):
        _refuse_pickled_on_hub(str(path_or_id))
    return directory


def check_target(path_or_id: str | Path) -> None:
    """Checks a target's name and kind before anything slow is imported or downloaded. Raises `CheckpointError` where
    there is no such checkpoint, or it is no causal language model."""
    directory = checkpoint_directory(path_or_id, with_weights=False)
    check_causal_lm(directory, read_json(directory / CONFIG))


def check_quantise(quantise: str) -> None:
    """Raises `CheckpointError` for a format to which weights cannot be quantised; empty asks for none."""
    if quantise and quantise not in BITS:
        raise CheckpointError(f"weights cannot be quantised to '{quantise}'; choose from: {', '.join(BITS)}")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises `CheckpointError` where it holds none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    # RecursionError is what JSON raises that is nested too deeply.
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON; fetch or save the checkpoint again") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds no JSON object; fetch or save the checkpoint again")
    return content


def weight_files(directory: Path) -> list[Path]:
    """The checkpoint's safetensors files in name order. Raises `CheckpointError` where one is missing."""
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    if not (directory / SHARD_INDEX).is_file():
        refuse_pickled(directory)
        raise CheckpointError(f"{directory} has no weights; put its {WEIGHTS} there")
    shard_of_tensor = read_json(directory / SHARD_INDEX).get("weight_map")
    if not isinstance(shard_of_tensor, dict):
        raise CheckpointError(f"{directory / SHARD_INDEX} maps no weights; fetch the checkpoint again")
    shards = [directory / name for name in sorted({str(name) for name in shard_of_tensor.values()})]
    for shard in shards:
        if not shard.is_file():
            raise CheckpointError(f"{directory} lacks {shard.name}; fetch the checkpoint again")
    return shards


def refuse_pickled(directory: Path) -> None:
    """Raises `CheckpointError` where weights are there as pickle alone, with how to convert them."""
    if name := _pickled_alone(file.name for file in directory.glob("*")):
        raise CheckpointError(
            f"{directory} {_holds_pickled(name)}; convert it there with `{_conversion(name)}`, {_TENSORS_ALONE}"
        )


def _pickled_alone(names: Iterable[str]) -> str | None:
    """The likeliest name of weights among those of a checkpoint's files, if they are there as pickle alone."""
    ordered = sorted(names)
    if any(fnmatch(name, _SAFETENSORS) for name in ordered):
        return None
    return next((name for pattern in _PICKLED for name in ordered if fnmatch(name, pattern)), None)


def _holds_pickled(name: str) -> str:
    return f"holds its weights as {name}, which can run code when it is read"


def _conversion(name: str) -> str:
    pattern = _PICKLED[0] if fnmatch(name, _PICKLED[0]) else name
    return (
        'python -c "import glob, torch, safetensors.torch as s; s.save_file({k: v.clone() for f in '
        f"sorted(glob.glob('{pattern}')) for k, v in torch.load(f, map_location='cpu', weights_only=True).items()}}, "
        f"'{WEIGHTS}', {{'format': 'pt'}})\""
    )


def vocabulary_file(directory: Path) -> Path:
    """The file with the tokenizer's vocabulary. Raises `CheckpointError` where there is no tokenizer."""
    for name in VOCABULARIES:
        if (directory / name).is_file():
            return directory / name
    raise CheckpointError(f"{directory} has no tokenizer; put its {VOCABULARIES[0]} there")


def _fetch(hub_id: str, with_weights: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    patterns = [*_TEXT_FILES, *_WEIGHT_PATTERNS] if with_weights else list(_TEXT_FILES)
    try:
        return Path(snapshot_download(hub_id, allow_patterns=patterns))
    except HFValidationError as error:
        raise CheckpointError(f"{hub_id} is neither a directory nor a model's name on the hub") from error
    except GatedRepoError as error:
        raise CheckpointError(
            f"{hub_id} is gated; accept its terms on its page on the hub, then log in with `hf auth login` or set "
            "HF_TOKEN"
        ) from error
    except RepositoryNotFoundError as error:
        raise CheckpointError(
            f"{hub_id} is neither a directory nor on the hub; check the name, and if it is private, log in with "
            "`hf auth login` or set HF_TOKEN"
        ) from error
    except Exception as error:  # those of the HTTP client and of hf_xet, some RuntimeErrors, have no base in common
        if _is_disk_full(error):
            sentence = f"there is no room for {hub_id} in the hub's cache; make some, or set HF_HOME"
            raise CheckpointError(sentence) from error
        raise HubError(
            f"{hub_id} is not a directory and could not be fetched from the hub; check the name and the network"
        ) from error


def _refuse_pickled_on_hub(hub_id: str) -> None:
    """As `refuse_pickled`, for weights that are not fetched. A hub that cannot be asked is no reason to fail."""
    from huggingface_hub import HfApi

    try:
        names = HfApi().list_repo_files(hub_id)
    except Exception:
        return
    if name := _pickled_alone(name for name in names if "/" not in name):
        raise CheckpointError(
            f"{hub_id} {_holds_pickled(name)}; fetch it with `hf download {hub_id} --local-dir DIR`, convert it there "
            f"with `{_conversion(name)}`, {_TENSORS_ALONE}, and give DIR"
        )


def _is_disk_full(error: Exception) -> bool:
    """hf_xet's errors have the system's words, but not its number."""
    full = (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "errno", None) in full or any(os.strerror(number) in str(error) for number in full)
