"""The directory of a draft model: `config.json` with its kind and its target's fingerprint, beside safetensors.

What may live here: reading and writing such directories, and recognising kinds. It may not know any network.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from common.draft_kinds import DRAFT_KINDS, TRAINED_KINDS, DraftKind
from common.models.errors import CheckpointError
from common.models.source import CONFIG, WEIGHTS, read_json

EXPORTER_WEIGHTS = "exporter.safetensors"
"""The weights that only the server needs: those that compute the draft state."""

KIND_KEY = "outrider_draft"
FINGERPRINT_KEY = "target_fingerprint"
DEPTHS_KEY = "depths"
ACCEPT_KEY = "accept_lengths"
"""Accept lengths measured after training, by the number N of the target's last layers that the draft ran."""

_TRAINED = [kind.name for kind in TRAINED_KINDS]

Tensors = Mapping[str, torch.Tensor]


def save_draft(
    directory: Path,
    kind: str,
    fingerprint: str,
    config: Mapping[str, Any],
    client: Tensors,
    exporter: Tensors | None = None,
) -> None:
    """Writes a draft: the client's tensors and the exporter's, if any, in their present dtype."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {KIND_KEY: kind, FINGERPRINT_KEY: fingerprint, **config}
    (directory / CONFIG).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    for name, tensors in ((WEIGHTS, client), (EXPORTER_WEIGHTS, exporter)):
        if tensors:
            save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, directory / name)
            (directory / name).chmod(0o644)  # the writer leaves them readable by their owner alone


def read_draft_kind(directory: Path) -> DraftKind:
    """The kind of the draft in `directory`: what its configuration names, else `eagle` for a checkpoint as EAGLE's
    authors publish it, and `independent` for any other.

    Raises CheckpointError where it holds none, or one of an unknown kind.
    """
    config = read_json(directory / CONFIG)
    if KIND_KEY not in config:
        return DRAFT_KINDS["eagle" if is_published_eagle(directory) else "independent"]
    kind = str(config[KIND_KEY])
    if kind not in DRAFT_KINDS:
        raise CheckpointError(f"{directory} holds a draft of kind '{kind}', but known are only: {', '.join(_TRAINED)}.")
    return DRAFT_KINDS[kind]


def read_draft_depths(directory: Path) -> tuple[int, ...]:
    """The numbers of target layers that the draft in `directory` was trained for; empty where its kind runs none. The
    names of its tensors then begin with the depth that they belong to.

    Raises CheckpointError where the configuration cannot be read.
    """
    return tuple(int(depth) for depth in read_json(directory / CONFIG).get(DEPTHS_KEY, ()))


def is_published_eagle(directory: Path) -> bool:
    """Whether the weights have the names that EAGLE's authors publish."""
    from safetensors import safe_open

    if not (directory / WEIGHTS).is_file():
        return False
    try:
        with safe_open(directory / WEIGHTS, framework="pt") as file:
            names = set(file.keys())
    except SafetensorError:
        return False
    return "fc.weight" in names and "layers.0.self_attn.q_proj.weight" in names


def read_config(directory: Path, kind: str) -> dict[str, Any]:
    """The configuration of a draft of this kind. Raises CheckpointError where the directory holds another."""
    config = read_json(directory / CONFIG)
    found = config.get(KIND_KEY)
    if found != kind:
        what = f"a draft of kind '{found}'" if found else "no draft of ours"
        raise CheckpointError(f"{directory} holds {what}, not of kind '{kind}'; name another directory.")
    return config


def check_fingerprint(directory: Path, target_fingerprint: str) -> None:
    """Raises CheckpointError for a draft that was trained for another target. A draft that names no target passes."""
    trained_for = read_json(directory / CONFIG).get(FINGERPRINT_KEY, target_fingerprint)
    if trained_for != target_fingerprint:
        raise CheckpointError(
            f"the draft model in {directory} was trained for another target (fingerprint {str(trained_for)[:12]}, this "
            f"one is {target_fingerprint[:12]}); train one for this target with `outrider-train`."
        )


def note_accept_lengths(directory: Path, by_depth: Mapping[int, float]) -> None:
    """Writes measured accept lengths, by depth, into a draft's configuration."""
    config = read_json(directory / CONFIG)
    config[ACCEPT_KEY] = {str(depth): round(length, 3) for depth, length in by_depth.items()}
    (directory / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def read_accept_lengths(directory: Path) -> dict[int, float]:
    """Measured accept lengths by depth; empty where none was measured. Raises CheckpointError for impossible ones."""
    noted = read_json(directory / CONFIG).get(ACCEPT_KEY, {})
    try:
        lengths = {int(depth): float(length) for depth, length in noted.items()}
        if not all(depth >= 0 and math.isfinite(length) and length > 0 for depth, length in lengths.items()):
            raise ValueError("a depth is negative or a length is no positive number")
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{directory / CONFIG} has broken '{ACCEPT_KEY}'; fetch or train it again.") from error
    return lengths


def read_tensors(directory: Path, name: str = WEIGHTS) -> dict[str, torch.Tensor]:
    """The tensors of a file by name. Raises CheckpointError where it is missing or broken."""
    try:
        return load_file(directory / name)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{directory / name} is missing or broken; fetch or train the draft again.") from error


def load_into(module: torch.nn.Module, tensors: Tensors, directory: Path) -> None:
    """Loads `tensors` into `module` and freezes it. Raises CheckpointError where names or shapes differ."""
    try:
        module.load_state_dict(dict(tensors), strict=True)
    except RuntimeError as error:
        raise CheckpointError(
            f"the weights in {directory} do not fit its {CONFIG}; fetch or train it again."
        ) from error
    module.requires_grad_(False)
    module.train(False)
