"""`dflash` as published (DFlash, Chen et al. 2026, arXiv 2602.06036): block diffusion drafting. Hidden states of a few
of the target's layers, fused into one vector for each token, become keys and values of every layer; the rows of a
block, its tokens that are known and then masked ones, see these and each other in both directions. One forward predicts
the token of every masked position. Fusing is the server's part.

What may live here: the network, its configuration, its files, which are in the published layout with the weights that
fuse beside. It may not know caches, trees, losses or which states have arrived.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from common.draft_kinds import KIND_KEY
from common.draft_models.directory import EXPORTER_WEIGHTS, DraftFacts, load_into, network_from, save_draft
from common.draft_models.layers import Attention, DecoderLayer, LayerShape, RmsNorm
from common.draft_models.layouts import DFLASH, SERVER_PREFIX, published_names, recognise, rename
from common.draft_models.published_layers import check_settings, count_layers, layer_settings, read_layer_shapes
from common.draft_models.state_fuse import StateFuse, check_reach, check_taps
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError
from common.models.source import CONFIG, read_json

# Shape letters: N blocks, B rows of a block, S received states, E hidden size, K key/value heads, D their size.

KIND = "dflash"

_SETTINGS = "dflash_config"
_LONGEST = 256
"""Rows of a block, whatever a configuration says."""


@dataclass(frozen=True, slots=True)
class DflashConfig:
    """`length`: rows of a published block, the first a token and the others masked by the embedding of `mask`. `taps`:
    the target's layers whose inputs are fused, from 0. `vocabulary`: the target's tokens."""

    layer: LayerShape
    layers: int
    length: int
    mask: int
    taps: tuple[int, ...]
    vocabulary: int


class DflashDraft(nn.Module):
    def __init__(self, config: DflashConfig):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(DecoderLayer(config.layer) for _ in range(config.layers))
        self.norm = RmsNorm(config.layer.hidden, config.layer.epsilon)

    def keys_values(self, states: torch.Tensor, positions: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Of each layer `[N, K, S, D]` twice, from received states `[N, S, E]` at `positions [N, S]`."""
        return [layer.keys_values_as_is(states, positions) for layer in self.layers]  # type: ignore[operator]

    def forward(self, embedded: torch.Tensor, positions: torch.Tensor, attention: Sequence[Attention]) -> torch.Tensor:
        """What the target's head reads, `[N, B, E]`, of rows' embeddings at `positions [N, B]`: a masked row is
        predicted itself. `attention`: each layer's to the received keys and values and to its own."""
        x = embedded
        for layer, attends in zip(self.layers, attention, strict=True):
            x = layer(x, positions, attends)
        out: torch.Tensor = self.norm(x)
        return out


def make_fuse(config: DflashConfig) -> StateFuse:
    """A new, untrained server's half."""
    hidden = config.layer.hidden
    return StateFuse(len(config.taps) * hidden, hidden, config.layer.epsilon)


def save_dflash(directory: Path, fingerprint: str, draft: DflashDraft, fuse: StateFuse) -> None:
    """Writes the client's half and the server's, in the dtype they have."""
    config, shape = draft.config, draft.config.layer
    content = {
        "architectures": [DFLASH.architecture],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": config.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": shape.epsilon,
        "rope_theta": shape.rope_base,
        "rope_scaling": None if shape.rope_scaling is None else asdict(shape.rope_scaling),
        "vocab_size": config.vocabulary,
        "block_size": config.length,
        _SETTINGS: {"mask_token_id": config.mask, "target_layer_ids": [tap - 1 for tap in config.taps]},
    }
    names = published_names(DFLASH, layers=config.layers)
    own = {names[name]: tensor for name, tensor in draft.state_dict().items()}
    fusing = {names[SERVER_PREFIX + name]: tensor for name, tensor in fuse.state_dict().items()}
    save_draft(directory, KIND, fingerprint, content, own, fusing)


def load_dflash(directory: Path) -> DflashDraft:
    """The client's half, frozen. Takes our directories and published ones. Raises CheckpointError for anything else."""
    config, tensors = _read(directory)
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith(SERVER_PREFIX)}
    return network_from(lambda: DflashDraft(config), own, directory)


def load_fuse(directory: Path) -> StateFuse:
    """The server's half, frozen. Raises CheckpointError where it is not there or broken."""
    config, tensors = _read(directory, with_exporter=True)
    own = {
        name.removeprefix(SERVER_PREFIX): tensor for name, tensor in tensors.items() if name.startswith(SERVER_PREFIX)
    }
    fuse = make_fuse(config)
    load_into(fuse, own, directory)
    return fuse


def read_taps(directory: Path, layers: int) -> tuple[int, ...]:
    """The layers of a target of `layers` layers whose inputs are fused. Raises CheckpointError where it has not so
    many."""
    return check_reach(_read(directory)[0].taps, layers, directory)


def read_facts(directory: Path) -> DraftFacts:
    """Raises CheckpointError where `directory` holds no DFlash draft, or one that is broken."""
    config = load_dflash(directory).config
    load_fuse(directory)
    return DraftFacts(hidden=config.layer.hidden, vocabulary=config.vocabulary, least_layers=max(config.taps))


def _read(directory: Path, *, with_exporter: bool = False) -> tuple[DflashConfig, dict[str, torch.Tensor]]:
    """The configuration, and the tensors under our names."""
    content = read_json(directory / CONFIG)
    layout = DFLASH if content.get(KIND_KEY) == KIND else None if KIND_KEY in content else recognise(directory)
    if layout is not DFLASH:
        raise CheckpointError(f"{directory} holds no DFlash draft; name another directory")
    tensors = read_tensors(directory)
    if with_exporter and KIND_KEY in content:
        tensors |= read_tensors(directory, EXPORTER_WEIGHTS)
    # A bundle has no weights that fuse.
    elsewhere = () if with_exporter else (f"{SERVER_PREFIX}weight", f"{SERVER_PREFIX}out_norm.weight")
    settings = layer_settings(DFLASH, directory)
    layers = count_layers(DFLASH, settings, tensors, directory)
    renamed = rename(DFLASH, tensors, directory, elsewhere, layers=layers)
    first = {f"layer.{name.removeprefix('layers.0.')}" for name in renamed if name.startswith("layers.0.")}
    shapes = read_layer_shapes(settings, first, directory, layers)
    if any(shape.sliding_window for shape in shapes):
        raise CheckpointError(f"layers of the draft in {directory} see a window only, which is not read; name another")
    return _config(content, replace(shapes[0], input_norm=True), layers, directory), renamed


def _config(content: Mapping[str, Any], shape: LayerShape, layers: int, directory: Path) -> DflashConfig:
    """Some publishers have the length of a block and the target's layers at the top, others beside the mask. A layer's
    number in a published configuration is that of the layer which the hidden states leave."""
    try:
        own = dict(content.get(_SETTINGS) or {})
        check_settings({**content, **own}, directory, is_causal=False)
        taps = check_taps([int(number) + 1 for number in own.get("target_layer_ids") or content["target_layer_ids"]])
        length = int(content.get("block_size") or own["block_size"])
        vocabulary, mask = int(content["vocab_size"]), int(own["mask_token_id"])
        if not 2 <= length <= _LONGEST or not 0 <= mask < vocabulary:
            raise ValueError("no block is of that length, or the mask is no token")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{directory / CONFIG} lacks the block's length, its mask or the target's layers; fetch it again"
        ) from error
    return DflashConfig(shape, layers, length, mask, taps, vocabulary)
