"""The directory of a draft model: `config.json` with its kind and its target's fingerprint, beside safetensors.

What may live here: reading and writing such directories, and recognising kinds. It may not know any network.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from safetensors.torch import save_file

from common.draft_kinds import DRAFT_KINDS, KIND_KEY, TRAINED_KINDS, DraftKind
from common.draft_models.layouts import recognise
from common.models.errors import CheckpointError
from common.models.families import key_width
from common.models.source import CONFIG, WEIGHTS, read_json, refuse_pickled
from common.weight_only.load import is_quantised, load_quantised, without_weights

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

EXPORTER_WEIGHTS = "exporter.safetensors"
"""The weights that only the server needs: those that compute the draft state."""

FINGERPRINT_KEY = "target_fingerprint"
DEPTHS_KEY = "depths"

_TRAINED = [kind.name for kind in TRAINED_KINDS]

Tensors = Mapping[str, torch.Tensor]

Network = TypeVar("Network", bound=torch.nn.Module)


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
            # Written beside and moved: a drafter may have the present file mapped.
            written = directory / f"{name}.part"
            save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, written)
            written.chmod(0o644)  # the writer leaves them readable by their owner alone
            written.replace(directory / name)


def read_draft_kind(directory: Path) -> DraftKind:
    """The kind of the draft in `directory`: what its configuration names, else that of the published layout that it is
    in, and `independent` for any other checkpoint.

    Raises CheckpointError where it holds none, one of an unknown kind, or weights as pickle alone.
    """
    config = read_json(directory / CONFIG)
    if KIND_KEY not in config:
        refuse_pickled(directory)
        layout = recognise(directory)
        return DRAFT_KINDS["independent" if layout is None else layout.kind]
    kind = str(config[KIND_KEY])
    if kind not in DRAFT_KINDS:
        raise CheckpointError(f"{directory} holds a draft of kind '{kind}', but known are only: {', '.join(_TRAINED)}")
    return DRAFT_KINDS[kind]


def read_draft_depths(directory: Path) -> tuple[int, ...]:
    """The numbers of target layers that the draft in `directory` was trained for; empty where its kind runs none. The
    names of its tensors then begin with the depth that they belong to.

    Raises CheckpointError where the configuration cannot be read.
    """
    try:
        return tuple(int(depth) for depth in read_json(directory / CONFIG).get(DEPTHS_KEY, ()))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{directory / CONFIG} has a broken '{DEPTHS_KEY}'; fetch it again") from error


def read_config(directory: Path, kind: str) -> dict[str, Any]:
    """The configuration of a draft of this kind. Raises CheckpointError where the directory holds another."""
    config = read_json(directory / CONFIG)
    found = config.get(KIND_KEY)
    if found != kind:
        what = f"a draft of kind '{found}'" if found else "no draft of ours"
        raise CheckpointError(f"{directory} holds {what}, not of kind '{kind}'; name another directory")
    return config


_MOST_HEADS = 64
"""Heads, or blocks of one, whatever a configuration says."""


def check_heads(heads: int, blocks: int = 1) -> None:
    """Raises ValueError for numbers of which no draft consists."""
    if max(heads, blocks) > _MOST_HEADS:
        raise ValueError("there are no such heads")


def read_target_fingerprint(directory: Path) -> str | None:
    """Of the target that a draft was trained for, None where its configuration does not say."""
    fingerprint = read_json(directory / CONFIG).get(FINGERPRINT_KEY)
    return None if fingerprint is None else str(fingerprint)


def check_fingerprint(directory: Path, target_fingerprint: str) -> None:
    """Raises CheckpointError for a draft that was trained for another target. A draft that names no target passes."""
    trained_for = read_target_fingerprint(directory) or target_fingerprint
    if trained_for != target_fingerprint:
        raise CheckpointError(
            f"the draft model in {directory} was trained for another target (fingerprint {trained_for[:12]}, this "
            f"one is {target_fingerprint[:12]}); train one for this target with `outrider-train`"
        )


@dataclass(frozen=True, slots=True)
class DraftFacts:
    """What a draft's own files say of it, and of the target that it was made for; None where that does not matter.

    depths: the numbers of the target's last layers that it may run, `(0,)` for none. hidden, vocabulary, layers,
    state_width: sizes of the target, the last is twice the width of one layer's keys. least_layers: the target must
    have so many. proposable: the tokens that it may propose, None for all.
    """

    depths: tuple[int, ...] = (0,)
    hidden: int | None = None
    vocabulary: int | None = None
    layers: int | None = None
    state_width: int | None = None
    least_layers: int = 0
    proposable: int | None = None


def check_sizes(directory: Path, facts: DraftFacts, target: "PreTrainedConfig") -> None:
    """Raises CheckpointError for a draft whose sizes are not those of `target`, with the first that differs."""
    sizes = (
        ("hidden size", facts.hidden, target.hidden_size),
        ("vocabulary", facts.vocabulary, target.vocab_size),
        ("number of layers", facts.layers, target.num_hidden_layers),
        ("width of keys and values", facts.state_width, 2 * key_width(target)),
    )
    for name, own, theirs in sizes:
        if own is not None and own != theirs:
            raise CheckpointError(
                f"the draft model in {directory} was made for another target ({name} {own}, this one's is {theirs}); "
                "train one for this target with `outrider-train`"
            )
    if facts.least_layers > target.num_hidden_layers:
        raise CheckpointError(
            f"the draft model in {directory} was made for another target: it reads layer {facts.least_layers}, and "
            f"this one has {target.num_hidden_layers}; train one for this target with `outrider-train`"
        )


def network_from(build: Callable[[], Network], tensors: Tensors, directory: Path) -> Network:
    """The network that `build` makes, on these tensors themselves and frozen: those of a mapped file stay there.

    Raises CheckpointError where names or shapes differ.
    """
    network = without_weights(build)
    try:
        if is_quantised(tensors):
            load_quantised(network, tensors, torch.empty(0))
        else:
            network.load_state_dict(dict(tensors), strict=True, assign=True)
    except (RuntimeError, ValueError, AttributeError) as error:
        raise _not_fitting(directory) from error
    return network.requires_grad_(False).train(False)


def load_into(module: torch.nn.Module, tensors: Tensors, directory: Path) -> None:
    """Loads `tensors` into `module` and freezes it. Raises CheckpointError where names or shapes differ."""
    try:
        module.load_state_dict(dict(tensors), strict=True)
    except RuntimeError as error:
        raise _not_fitting(directory) from error
    module.requires_grad_(False)
    module.train(False)


def _not_fitting(directory: Path) -> CheckpointError:
    return CheckpointError(f"the weights in {directory} do not fit its {CONFIG}; fetch or train it again.")
