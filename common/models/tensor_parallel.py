"""Tensor parallelism: one checkpoint's weights divided among the ranks of a process group, by transformers' own plans
(Shoeybi et al. 2019, Megatron-LM, arXiv 1909.08053): what can be divided, and with which arguments it is loaded.

It may not know who the other ranks are, what a pass is, or how ranks talk.
"""

from math import gcd
from typing import Any

import torch
from transformers import PreTrainedConfig
from transformers import __version__ as transformers_version

from common.models.errors import CheckpointError
from common.models.families import key_value_heads, layer_configs
from common.protocol.plain import plain


def check_parts(config: PreTrainedConfig, ranks: int, quantisation: str) -> None:
    """Raises CheckpointError for a checkpoint that cannot be divided: quantised, by the method `quantisation`, of a
    type for which transformers has no plan, or with a number of heads that does not divide."""
    if quantisation:
        raise CheckpointError(
            f"a quantised target ({quantisation}) runs on one device; leave out --tensor-parallel, or serve weights as "
            "they are"
        )
    model_type = plain(config.model_type, 40)
    if not config.base_model_tp_plan:
        raise CheckpointError(
            f"transformers {transformers_version} has no plan for dividing a model of type '{model_type}' among "
            "devices; leave out --tensor-parallel, or choose another target"
        )
    layers = layer_configs(config)
    heads = gcd(*(int(layer.num_attention_heads) for layer in layers))
    shared = gcd(*(key_value_heads(layer) for layer in layers))
    common = gcd(heads, shared)
    if common % ranks:
        fitting = [str(number) for number in range(2, common + 1) if common % number == 0]
        remedy = f"use --tensor-parallel {' or '.join(fitting)}" if fitting else "leave out --tensor-parallel"
        raise CheckpointError(
            f"the target's {heads} attention heads with {shared} heads of keys and values cannot be divided among "
            f"{ranks} ranks; {remedy}"
        )


def loading_in_parts(ranks: int, device: torch.device) -> dict[str, Any]:
    """The arguments with which transformers loads this rank's part of a checkpoint, once the process group is there.
    Raises CheckpointError where it cannot."""
    # transformers chooses the kind of device itself.
    here = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    if here.type != device.type:
        raise CheckpointError(
            f"transformers divides a model among this machine's {here.type} devices, not on {device.type}; choose "
            f"--device {here.type}, or hide those devices, as CUDA_VISIBLE_DEVICES= does"
        )
    try:
        from transformers.distributed import DistributedConfig  # type: ignore[attr-defined]

        return {"distributed_config": DistributedConfig(tp_size=ranks)}
    except (ImportError, TypeError) as error:
        raise CheckpointError(
            f"transformers {transformers_version} cannot divide a model among devices; install 5.23 or newer"
        ) from error


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """What of a parameter lies on this rank."""
    from torch.distributed.tensor import DTensor

    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
