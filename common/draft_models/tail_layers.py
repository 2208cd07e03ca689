"""Whether a target's last layers compute the same where they are the only ones and are numbered from 0.

No list of families may live here: what layers are built with is compared. It may not know files, nor how a tail's
configuration is made.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedConfig

from common.models.errors import CheckpointError
from common.models.parts import layers_of
from common.models.quantised import first_sentence
from common.models.source import QUANTISATION

_REMEDY = "draft by a model of its own (independent), by lookup, or with a kind that runs none of the target's layers"


def check_same_layers(
    target: Path, kind: type[PreTrainedConfig], whole: Mapping[str, Any], tail: Mapping[str, Any]
) -> None:
    """Raises CheckpointError where the layers of a model of configuration `tail` are built with other numbers than the
    last ones of `whole`, the configuration of `target`, such as a scale that is divided by the number of the layer.

    What a layer computes from buffers, or from its number in a forward, is not compared.
    """
    try:
        all_of_them, alone = (_layers(kind, described) for described in (whole, tail))
    # Each family raises exceptions of its own for a configuration of no model.
    except Exception as error:
        raise CheckpointError(
            f"the last layers of the target in {target} make no model of their own ({first_sentence(error)}); {_REMEDY}"
        ) from error
    first = len(all_of_them) - len(alone)
    for theirs, own in zip(all_of_them[first:], alone, strict=True):
        name = next(_differences(theirs, own, first), None)
        if name is not None:
            raise CheckpointError(
                f"the last {len(alone)} layers of the target in {target} would compute something else without those "
                f"before them, on which their {name} depends; {_REMEDY}"
            )


def _layers(kind: type[PreTrainedConfig], described: Mapping[str, Any]) -> Sequence[nn.Module]:
    """Of the plain model, without memory. Raises whatever transformers does."""
    # Their classes complete the dicts that they are given.
    plain = deepcopy({key: value for key, value in described.items() if key != QUANTISATION})
    make: Any = AutoModelForCausalLM.from_config
    with torch.device("meta"):
        return list(layers_of(make(kind.from_dict(plain))))


def _differences(theirs: nn.Module, own: nn.Module, first: int) -> Iterator[str]:
    """The names of what two layers are built with that differs, but for their numbers, which `first` parts."""
    known, found = _built_with(theirs), _built_with(own)
    for name in sorted(known.keys() | found.keys()):
        before, after = known.get(name), found.get(name)
        if before != after and not (type(before) is type(after) is int and before - after == first):
            yield name


def _built_with(layer: nn.Module) -> dict[str, object]:
    """The types of a layer's modules and the plain values that they hold, by name."""
    facts: dict[str, object] = {}
    for path, module in layer.named_modules():
        prefix = f"{path}." if path else ""
        facts[f"{prefix}type"] = type(module)
        facts |= {prefix + name: value for name, value in vars(module).items() if isinstance(value, int | float | str)}
    return facts
