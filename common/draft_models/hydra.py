"""Hydra's heads (Ankner et al. 2024, arXiv 2402.05109), each of which sees the tokens that those before it said, and
Hydra++'s prefix attention; reading them from our directories and from those that Hydra's authors publish.

What may live here: the network, its configuration, its files. It may not know caches, trees or losses.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn
from torch.nn import functional

from common.draft_kinds import KIND_KEY
from common.draft_models.directory import DraftFacts, check_heads, network_from, read_config, save_draft
from common.draft_models.layers import LayerShape, ResidualBlock
from common.draft_models.layouts import recognise, rename
from common.draft_models.path_heads import PathHeads
from common.draft_models.published_layers import check_settings, read_layer_shapes
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError
from common.models.source import CONFIG, read_json

KIND = "hydra"


@dataclass(frozen=True, slots=True)
class HydraConfig:
    """`blocks`: residual blocks of each head, the first of which takes in the path. `layer`: that of Hydra++'s prefix
    attention, None for plain Hydra. `shared_head`: all heads end in the target's own. `head_bias`: own ones have a
    bias, as published."""

    hidden: int
    vocabulary: int
    heads: int
    blocks: int = 1
    shared_head: bool = False
    head_bias: bool = False
    layer: LayerShape | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError where a field is missing or of another type."""
        layer, heads, blocks = content["layer"], int(content["heads"]), int(content["blocks"])
        check_heads(heads, blocks)
        return cls(
            hidden=int(content["hidden"]),
            vocabulary=int(content["vocabulary"]),
            heads=heads,
            blocks=blocks,
            shared_head=bool(content["shared_head"]),
            head_bias=bool(content["head_bias"]),
            layer=None if layer is None else LayerShape.from_json(layer),
        )


class PathBlock(nn.Module):
    """R x + SiLU(W x + b) of several vectors beside each other, with a linear R because the width changes. It starts
    as the first vector alone."""

    def __init__(self, width: int, vectors: int):
        super().__init__()
        self.linear = nn.Linear(width * vectors, width)
        self.residual = nn.Linear(width * vectors, width)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)
        with torch.no_grad():
            self.residual.weight[:, :width].copy_(torch.eye(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.residual(x) + functional.silu(self.linear(x))
        return out


class HydraDraft(PathHeads):
    """Head k reads the hidden state and k + 1 embeddings beside each other."""

    def __init__(self, config: HydraConfig):
        super().__init__(config)
        self.trunks = nn.ModuleList(
            nn.Sequential(
                PathBlock(config.hidden, head + 2), *(ResidualBlock(config.hidden) for _ in range(config.blocks - 1))
            )
            for head in range(config.heads)
        )
        if not config.shared_head:
            self.heads = nn.ModuleList(
                nn.Linear(config.hidden, config.vocabulary, bias=config.head_bias) for _ in range(config.heads)
            )

    def begin_from(self, head: torch.Tensor) -> None:
        """Copies the target's head `[V, E]` into every head that is not shared."""
        for own in self.heads if not self.config.shared_head else ():
            with torch.no_grad():
                own.get_parameter("weight").copy_(head)

    def logits(self, base: torch.Tensor, embedded: torch.Tensor, target_head: nn.Module) -> torch.Tensor:
        """`[B, V]` of head K - 1 from `base [B, E]` and `embedded [B, K, E]`."""
        index = embedded.shape[1] - 1
        trunk = self.trunks[index](torch.cat([base[:, None], embedded], dim=1).flatten(1))
        out: torch.Tensor = (target_head if self.config.shared_head else self.heads[index])(trunk)
        return out


def save_hydra(directory: Path, fingerprint: str, draft: HydraDraft) -> None:
    save_draft(directory, KIND, fingerprint, draft.config.to_json(), draft.state_dict())


def load_hydra(directory: Path) -> HydraDraft:
    """The heads, frozen, as they were saved. Takes our directories and published ones.

    Raises CheckpointError where the directory holds none.
    """
    content, tensors = read_json(directory / CONFIG), read_tensors(directory)
    try:
        if KIND_KEY in content:
            config = HydraConfig.from_json(read_config(directory, KIND))
        else:
            config, tensors = _published(content, tensors, directory)
        return network_from(lambda: HydraDraft(config), tensors, directory)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory / CONFIG} describes no Hydra heads; fetch or train them again") from error


def read_facts(directory: Path) -> DraftFacts:
    """Raises as `load_hydra` does."""
    config = load_hydra(directory).config
    return DraftFacts(hidden=config.hidden, vocabulary=config.vocabulary)


def _published(
    content: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], directory: Path
) -> tuple[HydraConfig, dict[str, torch.Tensor]]:
    """The configuration of published heads, and their tensors under our names. All heads of the file are taken. The
    layer of Hydra++ has the sizes of its target's; where the configuration does not say them, its heads are 128 wide.

    Raises CheckpointError where they are none or incomplete, KeyError, TypeError or ValueError for other settings.
    """
    layout = recognise(directory)
    if layout is None or layout.kind != KIND:
        raise CheckpointError(f"{directory} holds no Hydra heads; name another directory")
    if int(content.get("hidden_state_offset", 0)) or content.get("grounded_heads", True) is not True:
        raise CheckpointError(
            f"the heads in {directory} read another layer than the target's last, or not the path; name others"
        )
    numbered = [name.split(".")[1] for name in tensors if name.startswith("hydra_lm_head.")]
    heads = max((int(number) for number in numbered if number.isdecimal()), default=-1) + 1
    blocks = int(content.get("hydra_num_layers", 1))
    check_heads(heads, blocks)
    if blocks < 1:
        raise ValueError("the first block takes in the path")
    renamed = rename(layout, tensors, directory, heads=heads, blocks=blocks)
    vocabulary, hidden = renamed["heads.0.weight"].shape
    layer = _published_layer(content, renamed, directory) if layout.prefix_layer else None
    config = HydraConfig(hidden, vocabulary, heads, blocks, head_bias="heads.0.bias" in renamed, layer=layer)
    return config, renamed


def _published_layer(content: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], directory: Path) -> LayerShape:
    own = {name.removeprefix("prefix."): tensor for name, tensor in tensors.items() if name.startswith("prefix.")}
    queries, hidden = own["layer.q_proj.weight"].shape
    head_dim = int(content.get("head_dim") or queries // int(content.get("num_attention_heads") or queries // 128))
    settings = {
        **content,
        "hidden_size": hidden,
        "head_dim": head_dim,
        "num_attention_heads": queries // head_dim,
        "num_key_value_heads": own["layer.k_proj.weight"].shape[0] // head_dim,
        "intermediate_size": own["layer.gate_proj.weight"].shape[0],
    }
    check_settings(settings, directory, own_embedding=False, is_causal=True)
    (shape,) = read_layer_shapes(settings, own, directory)
    return replace(shape, input_norm=True)
