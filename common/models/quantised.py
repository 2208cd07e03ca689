"""Quantised checkpoints: recognising them, loading them, and their weights as plain numbers.

It may not know how any method stores its numbers: the weights of a linear layer are its outputs for unit vectors.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    BitsAndBytesConfig,
    CompressedTensorsConfig,
    FineGrainedFP8Config,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.pytorch_utils import Conv1D
from transformers.quantizers.auto import AutoHfQuantizer
from transformers.utils.quantization_config import Mxfp4Config

from common.models.errors import CheckpointError
from common.models.source import QUANTISATION, check_quantise

_TALKATIVE = ("bitsandbytes", "compressed_tensors", "torchao")

_PLAIN = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

_UNITS = 1024
"""Unit vectors in one forward of a layer."""

_few_bits: Callable[..., Any] = BitsAndBytesConfig

_AS_STORED: Mapping[str, Callable[[], Any]] = {
    # By default it unpacks the weights in the first forward of the whole model, which our passes never run.
    "compressed-tensors": lambda: CompressedTensorsConfig(dequantize=True),
}
"""The settings for loading a quantised checkpoint that its configuration does not contain, by method."""

_EXPANDED: Mapping[str, Callable[[], Any]] = {
    **_AS_STORED,
    "fp8": lambda: FineGrainedFP8Config(dequantize=True),
    "mxfp4": lambda: Mxfp4Config(dequantize=True),
}
"""Those for loading it with plain numbers in place of its weights, for the methods that can. FP8 can where
`check_whole_blocks` raises nothing."""

_ON_LOADING: Mapping[str, Callable[[], Any]] = {
    "int8": lambda: _few_bits(load_in_8bit=True),
    "int4": lambda: _few_bits(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16),
}
"""The settings for quantising a plain checkpoint, by the names of `source.BITS`."""


def method_of(config: Mapping[str, Any]) -> str:
    """The quantisation method that a checkpoint's configuration names; empty for plain weights."""
    settings = config.get(QUANTISATION)
    if not isinstance(settings, dict) or not settings:
        return ""
    return str(settings.get("quant_method") or "bitsandbytes")


def why_not(config: Mapping[str, Any], quantise: str, device: str) -> str:
    """Why a checkpoint of this configuration cannot be loaded quantised, or be quantised, with the packages and the
    device that there are; empty where it can."""
    try:
        _quantiser(config, quantise, device)
    # Each method raises exceptions of its own for a missing package or GPU.
    except Exception as error:
        return first_sentence(error)
    return ""


def is_expanded(config: Mapping[str, Any], device: str) -> bool:
    """Whether the weights of a checkpoint of this configuration become plain numbers when they are loaded, because
    `loading` asks for that, or the device cannot compute with them as they are stored."""
    try:
        quantiser = _quantiser(config, "", device)
    except Exception:  # it cannot be loaded, which `why_not` explains
        return False
    return bool(getattr(getattr(quantiser, "quantization_config", None), "dequantize", False))


def _quantiser(config: Mapping[str, Any], quantise: str, device: str) -> Any:
    """Transformers' own for such a checkpoint on this device; None where nothing is quantised. Raises whatever it does
    where a package or a GPU is missing."""
    method = method_of(config)
    arguments = loading(method, quantise, torch.device(device))
    settings = arguments.get("quantization_config") or (dict(config[QUANTISATION]) if method else None)
    if settings is None:
        return None
    with quietly():
        quantiser = AutoHfQuantizer.from_config(settings, pre_quantized=bool(method))
        quantiser.validate_environment(device_map=arguments["device_map"])
    return quantiser


def first_sentence(error: Exception) -> str:
    """The first sentence of a library's error about a missing package or GPU."""
    said = str(error).strip() or type(error).__name__
    return said.splitlines()[0].split(". ")[0].rstrip(".:! ")


def loading(method: str, quantise: str, device: torch.device, *, expanded: bool = False) -> dict[str, Any]:
    """The arguments with which transformers loads a checkpoint stored by `method`, `expanded` to plain numbers where
    the method can, or quantises a plain one to `quantise`; empty for neither. Raises CheckpointError for both, and for
    an unknown format."""
    if not method and not quantise:
        return {}
    check_quantise(quantise)
    if method and quantise:
        raise CheckpointError(f"the checkpoint is quantised already ({method}); load it as it is")
    # Such weights are laid out for the device that they are loaded to.
    arguments: dict[str, Any] = {"device_map": {"": str(device)}}
    make = _ON_LOADING[quantise] if quantise else (_EXPANDED if expanded else _AS_STORED).get(method)
    return arguments if make is None else arguments | {"quantization_config": make()}


@contextmanager
def quietly() -> Iterator[None]:
    """Silences the libraries of these methods, which write to stderr."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.ERROR)
    with redirect_stderr(StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def settle(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """Converts parameters that are not quantised to one dtype: they are loaded in the one in which they were stored.
    Buffers stay as they are: in few bits, rotary frequencies turn keys far away by whole radians."""
    for module in model.modules():
        if _is_quantised(module):
            continue
        for parameter in module.parameters(recurse=False):
            if type(parameter) is nn.Parameter:
                parameter.data = parameter.data.to(dtype)


@torch.inference_mode()
def plain_tensors(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The parameters of a plain model with the same function, by name, on the CPU; those of linear layers in the dtype
    of their outputs, and one that several modules share by its first name alone, as checkpoints have it.

    Raises CheckpointError where others than linear layers are quantised, as `has_fused_experts` says of some.
    """
    skeleton = _skeleton(model.config)
    repeated = _repeated_names(model)
    tensors: dict[str, torch.Tensor] = {}
    for path, reference in skeleton.named_modules():
        module = model.get_submodule(path)
        for name, _ in reference.named_parameters(recurse=False):
            full = f"{path}.{name}"
            if full in repeated:
                continue
            is_weight = isinstance(reference, nn.Linear) and name == "weight"
            tensor = plain_weight(module, model) if is_weight else getattr(module, name, None)
            if tensor is None or tensor.dtype not in _PLAIN:
                raise CheckpointError(
                    f"the quantised weights {full} cannot be turned into plain numbers here; choose the checkpoint "
                    "that they were made from, or one that is quantised in another way"
                )
            tensors[full] = tensor.detach().to("cpu").contiguous()
    return tensors


def _repeated_names(model: nn.Module) -> set[str]:
    """All names but the first of the parameters that have several, such as that of a head tied to the embedding."""
    first = {name for name, _ in model.named_parameters()}
    return {name for name, _ in model.named_parameters(remove_duplicate=False)} - first


@torch.inference_mode()
def plain_weight(module: nn.Module, model: PreTrainedModel) -> torch.Tensor:
    """`[out, in]`: the weight of a linear layer of `model`, or of any module that has a plain one.

    For a quantised layer, it is computed from the outputs for unit vectors, without the bias.
    """
    width = getattr(module, "in_features", None)
    if width is None or _is_plain(module):
        return module.get_parameter("weight")
    columns = []
    for start in range(0, width, _UNITS):
        count = min(_UNITS, width - start)
        units = torch.zeros(1, count, width, dtype=model.dtype, device=model.device)
        units[0, torch.arange(count), torch.arange(start, start + count)] = 1
        answers = module(units)[0]
        bias = getattr(module, "bias", None)
        columns.append(answers if bias is None else answers - bias)
    return torch.cat(columns).T


def count_numbers(config: PreTrainedConfig) -> tuple[int, int]:
    """Of the plain model: those in the linear layers that `quantise` stores in few bits, and all others, its embedding
    and its head among them. Raises whatever transformers does for a configuration of no model."""
    skeleton: Any = _skeleton(config)
    head = skeleton.get_output_embeddings()
    linear = (each for each in skeleton.modules() if type(each) is nn.Linear or isinstance(each, Conv1D))
    few = sum(int(each.weight.numel()) for each in linear if each is not head)
    return few, sum(parameter.numel() for parameter in skeleton.parameters()) - few


def has_fused_experts(config: PreTrainedConfig) -> bool:
    """Whether the plain model has weights of more than two dimensions, which no linear layer holds. Raises whatever
    transformers does for a configuration of no model."""
    return any(parameter.dim() > 2 for parameter in _skeleton(config).parameters())


def _skeleton(config: PreTrainedConfig) -> PreTrainedModel:
    described = config.to_dict()
    described.pop(QUANTISATION, None)
    make: Callable[..., PreTrainedModel] = AutoModelForCausalLM.from_config
    with torch.device("meta"):
        return make(type(config).from_dict(described))


def _is_quantised(module: nn.Module) -> bool:
    """Whether its own parameters are in few bits, or belong to such, as the scales of experts do."""
    if any(parameter.dtype not in _PLAIN for parameter in module.parameters(recurse=False)):
        return True
    return isinstance(module, nn.Linear) and not _is_plain(module)


def _is_plain(module: nn.Module) -> bool:
    """Whether it is a linear layer with weights in a plain floating-point dtype."""
    weight = getattr(module, "weight", None)
    return type(module) is nn.Linear and type(weight) is nn.Parameter and weight.dtype in _PLAIN
