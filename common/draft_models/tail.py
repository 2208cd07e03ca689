"""The end of a target as a checkpoint of its own: embedding, last layers, final norm, head.

What may live here: writing that directory from the target's tensors without loading the others, and reading it. The
result is an ordinary checkpoint of the target's family. The weights of a quantised target become plain numbers, so that
a laptop needs neither the quantisation's packages nor a GPU.

It may not know drafts, bundles or slots.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import PreTrainedConfig, PreTrainedModel

from common.atomic import scratch_folder
from common.draft_models.layouts import MEDUSA
from common.draft_models.tail_layers import check_same_layers
from common.models.checkpoint import load_causal_lm, load_config
from common.models.errors import CheckpointError
from common.models.parts import layers_of
from common.models.placement import DTYPES
from common.models.quantised import has_fused_experts, method_of, plain_tensors
from common.models.source import CONFIG, QUANTISATION, WEIGHTS, read_json, weight_files

_LAYER = re.compile(r"((?:\w+\.)*?(?:layers|h|blocks))\.(\d+)\.(.*)")
_NOT_THE_TARGETS = MEDUSA.prefix
"""How the names of tensors begin that a Medusa-2 checkpoint holds beside its model's."""
_MENTIONED_LAYER = re.compile(r"(layers\\?\.)(\d+)")
_HIDDEN_LAYERS = "num_hidden_layers"
_COUNTED = ("max_window_layers", "first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")
"""What configurations call the number of a first layer that differs from those before it."""
_LAST_COUNTED = "moe_layer_end_index"
"""What they call the number of the last layer that differs from those behind it."""
_NUMBERED = ("mlp_only_layers", "moe_layers")
"""What configurations call lists of layers' numbers. Of other lists about layers, each entry is of one layer."""
_SPARSE_STEP = "decoder_sparse_step"
_DIFFERING = "per_layer_config"
"""What configurations call what differs by layer, under the layer's number."""
_BESIDE_HIDDEN_STATES = ("hidden_size_per_layer_input", "num_kv_shared_layers")
"""What configurations call inputs of layers besides the hidden states of the layer before: its tokens' own vectors,
and K/V of an earlier layer. No tail has them."""


def write_tail(target: Path, layers: int, out: Path) -> None:
    """Writes the target's embedding, last `layers` layers, norm and head to `out`.

    Raises CheckpointError where the target has fewer layers, or cannot be read, or where those would compute something
    else alone.
    """
    total, end = _checked_end(target, layers)
    kept = range(total - layers, total)
    if not method_of(end):
        _write_end(target, end, kept, out)
        return
    out.mkdir(parents=True, exist_ok=True)
    # Where there is room for files: the system's folder may be in memory.
    with scratch_folder(out / "quantised") as folder:
        _write_end(target, end, kept, folder)
        # Some methods compute on a GPU only.
        device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            # Experts are told by no outputs of theirs, so that transformers has to unpack them.
            expanded = has_fused_experts(load_config(folder))
            tensors = plain_tensors(load_causal_lm(folder, device, _stored_dtype(end), expanded=expanded))
        except CheckpointError as error:
            raise CheckpointError(str(error).replace(str(folder), str(target))) from error
    plain = {key: value for key, value in end.items() if key != QUANTISATION}
    _save(out, tensors, {"format": "pt"}, plain)


def check_last_layers(target: Path, layers: int) -> None:
    """Raises CheckpointError where the target's configuration tells that `write_tail` would."""
    _checked_end(target, layers)


def check_has_tail(config: PreTrainedConfig, target: Path) -> None:
    """Raises CheckpointError where the layers of the `target` with this configuration cannot run without its others."""
    reads = next((name for name in _BESIDE_HIDDEN_STATES if getattr(config, name, None)), None)
    if reads is not None:
        raise CheckpointError(
            f"the layers of the target in {target} read more than hidden states ({reads}), so that no draft model can "
            "run its last ones; draft by a model of its own (independent) or by lookup"
        )


def _checked_end(target: Path, layers: int) -> tuple[int, dict[str, Any]]:
    """How many layers the target has, and config.json of its last ones. Raises CheckpointError as `write_tail` does."""
    config, parsed = read_json(target / CONFIG), load_config(target)
    total = int(parsed.num_hidden_layers)
    if not 0 <= layers <= total:
        raise CheckpointError(f"the target has {total} layers, so its last {layers} cannot be taken; choose fewer")
    check_has_tail(parsed, target)
    end = _end_of(config, parsed, layers)
    if layers:
        check_same_layers(target, type(parsed), config, end)
    return total, end


def _write_end(target: Path, end: dict[str, Any], kept: range, out: Path) -> None:
    tensors: dict[str, torch.Tensor] = {}
    metadata = {"format": "pt"}
    for file in weight_files(target):
        held, described = _read_end(file, kept)
        tensors |= held
        metadata |= described
    _save(out, tensors, metadata, end)


def _save(out: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str], config: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out / WEIGHTS, metadata=metadata)
    (out / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_tail(directory: Path, layers: int, device: str | torch.device, dtype: str | torch.dtype) -> PreTrainedModel:
    """The last `layers` layers of what `write_tail` wrote, layer indices from 0.

    Raises CheckpointError where it holds fewer, or cannot be loaded.
    """
    model = load_causal_lm(directory, device, dtype)
    stack = layers_of(model)
    held = len(stack)
    if layers > held:
        raise CheckpointError(f"{directory} holds the target's last {held} layers, not {layers}; choose fewer")
    del stack[: held - layers]
    for module in stack.modules():
        if isinstance(getattr(module, "layer_idx", None), int):
            module.layer_idx -= held - layers  # type: ignore[operator, assignment]
    config: Any = model.config
    said = config.to_dict()
    kept = _per_layer(said, held, layers)
    config.num_hidden_layers = layers
    for name, values in kept.items():
        setattr(config, name, values)
    if said.get(_DIFFERING):
        config.per_layer_config = _differing(said[_DIFFERING], held - layers)
    return model


def _read_end(file: Path, kept: range) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors of the layers `kept` and of no layer, and the file's metadata about them."""
    try:
        with safe_open(file, framework="pt") as source:
            names = {name: _renumbered(name, kept) for name in source.keys()}  # noqa: SIM118 - it is no mapping
            tensors = {new: source.get_tensor(old) for old, new in names.items() if new is not None}
            return tensors, _metadata_of(source.metadata() or {}, kept)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{file} cannot be read; fetch the checkpoint again") from error


def _metadata_of(metadata: Mapping[str, str], kept: range) -> dict[str, str]:
    """The metadata with tensor names of the tail: some quantisation methods store entries and lists by tensor name."""
    described = {_renumbered(name, kept): text for name, text in metadata.items()}
    for name, text in described.items():
        if text.startswith("["):
            described[name] = json.dumps([new for each in json.loads(text) if (new := _renumbered(each, kept))])
    return {name: text for name, text in described.items() if name is not None}


def _renumbered(name: str, kept: range) -> str | None:
    """The tensor's name in the tail, None where it belongs to an earlier layer or to a draft model: Medusa's, or what
    checkpoints hold as layers behind the last one to predict several tokens."""
    if name.startswith(_NOT_THE_TARGETS):
        return None
    layer = _LAYER.fullmatch(name)
    if layer is None:
        return name
    index = int(layer[2])
    return f"{layer[1]}.{kept.index(index)}.{layer[3]}" if index in kept else None


def _per_layer(config: Mapping[str, Any], total: int, layers: int) -> dict[str, list[Any]]:
    """What a configuration says of each of `total` layers, of the last `layers`."""
    return {
        name: value[total - layers :]
        for name, value in config.items()
        if "layer" in name and name not in _NUMBERED and isinstance(value, list) and len(value) == total
    }


def _differing(by_layer: Mapping[Any, Any], first: int) -> dict[str, Any]:
    """What a configuration says of single layers, of those from `first` on."""
    return {str(int(layer) - first): said for layer, said in by_layer.items() if int(layer) >= first}


def _end_of(config: dict[str, Any], parsed: PreTrainedConfig, layers: int) -> dict[str, Any]:
    """config.json of the last layers. What it leaves to a rule over all layers is said of each layer."""
    said = parsed.to_dict()
    total = int(parsed.num_hidden_layers)
    first = total - layers
    end = config | {parsed.attribute_map.get(_HIDDEN_LAYERS, _HIDDEN_LAYERS): layers} | _per_layer(said, total, layers)
    for name in _COUNTED:
        if isinstance(said.get(name), int):
            end[name] = max(0, said[name] - first)
    if isinstance(said.get(_LAST_COUNTED), int):
        last = said[_LAST_COUNTED] - first
        end[_LAST_COUNTED] = last if last >= 0 else -2  # -1 stands for the last of all
    if config.get(_DIFFERING):
        end[_DIFFERING] = _differing(config[_DIFFERING], first)
    step = said.get(_SPARSE_STEP) or 1
    if step > 1:
        dense = {*(said.get(_NUMBERED[0]) or ()), *(layer for layer in range(total) if (layer + 1) % step)}
        said |= {_NUMBERED[0]: sorted(dense)}
        end[_SPARSE_STEP] = 1
    for name in _NUMBERED:
        if isinstance(said.get(name), list):
            end[name] = [layer - first for layer in said[name] if layer >= first]
    # Which layers a quantisation leaves out may be said by number; one that the tail lacks becomes a number of none.
    if QUANTISATION in config:
        end[QUANTISATION] = _remapped(config[QUANTISATION], first)
    return end


def _remapped(value: Any, first: int) -> Any:
    if isinstance(value, dict):
        return {_remapped(key, first): _remapped(each, first) for key, each in value.items()}
    if isinstance(value, list):
        return [_remapped(each, first) for each in value]
    if isinstance(value, str):
        return _MENTIONED_LAYER.sub(lambda found: f"{found[1]}{int(found[2]) - first}", value)
    return value


def _stored_dtype(config: dict[str, Any]) -> str:
    """The dtype in which the checkpoint computes."""
    named = str(config.get("dtype") or config.get("torch_dtype"))
    return named if named in DTYPES else "bfloat16"
