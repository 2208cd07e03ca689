"""Computes the size of draft models, their state and their training for targets that are too large to run here.

Pure. Parameters are counted on the real networks, built on the meta device; the rest is arithmetic that
`docs/scaling.md` explains. It may not know files, prompts or measurements.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, PreTrainedModel, Qwen2Config, Qwen3Config

from common.draft_models.eagle import EagleConfig, EagleDraft
from common.draft_models.eagle3 import TAPS, Eagle3Config, Eagle3Draft
from common.draft_models.layers import LayerShape
from common.draft_models.moa import MoaConfig, MoaDraft, make_lsa
from common.protocol.draft_state import raw_bytes
from training.draft_models.features import FrozenTarget
from training.draft_models.layer_sizes import target_layer
from training.draft_models.recipes import moa_sizes
from training.draft_models.recipes.eagle3 import DRAFT_VOCABULARY

_LSA_HEAD_DIM = 64
PUBLISHED_MIXER, DEFAULT_MIXER = "attention", "mixture"
HALF_PRECISION = 2  # bytes of a parameter or a cached number
_TOKENIZER_BYTES = 900
"""A client's memory for one token of the vocabulary's text, measured by `outrider-lab run sizes`."""
_TOKENIZER_FILE_BYTES = 65
"""The same in a bundle."""


@dataclass(frozen=True)
class TargetDimensions:
    """A target of the Llama, Qwen2 or Qwen3 families. bias: whether queries, keys and values have one. head_norms:
    whether queries and keys are normalised."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    bias: bool = False
    tied: bool = False
    head_norms: bool = False

    @property
    def key_width(self) -> int:
        """E_kv, the width of one layer's keys of one token."""
        return self.kv_heads * self.head_dim

    @property
    def layer_parameters(self) -> int:
        queries = self.heads * self.head_dim
        attention = self.hidden * (2 * queries + 2 * self.key_width)
        biases = (queries + 2 * self.key_width) * self.bias
        norms = 2 * self.hidden + 2 * self.head_dim * self.head_norms
        return attention + biases + 3 * self.hidden * self.intermediate + norms

    @property
    def head_parameters(self) -> int:
        return self.hidden * self.vocabulary

    @property
    def embedding_and_head(self) -> int:
        return self.head_parameters * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters + self.hidden + self.embedding_and_head


@dataclass(frozen=True)
class DraftDimensions:
    """A draft model for a target.

    server: parameters of the part on the server, which computes the state, with `lsa_rows` rows for each token. client:
    parameters of the part on the client, one such part for each of `depths`, the numbers of target layers for which it
    was trained. depth: the one that the client runs. state_numbers: that cross the link for each position.
    cached_numbers: that the client holds for each position of a context. kept_hidden: hidden states that the server
    keeps for each position. own_head: whether it has a head of its own, so that a client does not keep the target's.
    """

    name: str
    server: int
    client: int
    lsa_rows: int
    depths: tuple[int, ...]
    depth: int
    state_numbers: int
    cached_numbers: int
    kept_hidden: int = 0
    own_head: bool = False

    @property
    def trainable(self) -> int:
        return self.server + len(self.depths) * self.client


LLAMA_1B = TargetDimensions("Llama-3.2-1B", 2048, 16, 32, 8, 64, 8192, 128256, tied=True)
QWEN_600M = TargetDimensions("Qwen3-0.6B", 1024, 28, 16, 8, 128, 3072, 151936, tied=True, head_norms=True)
LLAMA_8B = TargetDimensions("Llama-3.1-8B", 4096, 32, 32, 8, 128, 14336, 128256)
QWEN_7B = TargetDimensions("Qwen2.5-7B", 3584, 28, 28, 4, 128, 18944, 152064, bias=True)
LLAMA_70B = TargetDimensions("Llama-3.1-70B", 8192, 80, 64, 8, 128, 28672, 128256)
TARGETS = (LLAMA_8B, QWEN_7B, LLAMA_70B)


def published_config(target: TargetDimensions, depths: tuple[int, ...]) -> MoaConfig:
    """The published sizes (Zimmer et al. 2025, given for Llama-3-8B) as ratios: the draft's layers have the target's
    number of heads, half of its key/value heads, and a feed-forward of one and a half times their width."""
    state = 2 * target.key_width
    layer = LayerShape(
        hidden=target.hidden,
        heads=target.heads,
        kv_heads=target.kv_heads // 2,
        head_dim=target.head_dim,
        intermediate=3 * target.hidden // 2,
    )
    heads = state // _LSA_HEAD_DIM
    mixed = LayerShape(state, heads, heads // 4, _LSA_HEAD_DIM, 3 * state // 2)
    return MoaConfig(
        target.hidden,
        target.layers,
        state,
        depths,
        lsa=mixed,
        sa=layer,
        ca=layer,
        mixer=PUBLISHED_MIXER,
        final_norm=False,
    )


def default_config(target: TargetDimensions, depths: tuple[int, ...]) -> MoaConfig:
    """The sizes that `outrider-train moa` chooses by default."""
    known = frozen(target)
    return moa_sizes.moa_config(known, depths, moa_sizes.default_size(known, DEFAULT_MIXER), DEFAULT_MIXER)


def frozen(target: TargetDimensions) -> FrozenTarget:
    """What the sizes of a draft model are chosen from, without a tokenizer and without memory for the weights."""
    return FrozenTarget(
        Path(),
        target.name,
        fingerprint="",
        model=build(target),
        tokenizer=None,  # type: ignore[arg-type]
        end_tokens=frozenset(),
    )


def build(target: TargetDimensions, layers: int | None = None) -> PreTrainedModel:
    """The target on the meta device, without memory for its weights; `layers` replaces their number."""
    make: Callable[..., PreTrainedConfig] = LlamaConfig
    if target.bias:
        make = Qwen2Config
    elif target.head_norms:
        make = Qwen3Config
    config = make(
        vocab_size=target.vocabulary,
        hidden_size=target.hidden,
        intermediate_size=target.intermediate,
        num_hidden_layers=target.layers if layers is None else layers,
        num_attention_heads=target.heads,
        num_key_value_heads=target.kv_heads,
        head_dim=target.head_dim,
        tie_word_embeddings=target.tied,
    )
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    return model


def moa(target: TargetDimensions, config: MoaConfig, depth: int, name: str = "") -> DraftDimensions:
    ca, sa = config.ca, config.sa
    attention = 2 * (ca.kv_heads * ca.head_dim + sa.kv_heads * sa.head_dim)
    tail = 2 * 2 * target.key_width * depth  # what the layers use, and what the server sent
    return DraftDimensions(
        name=name or f"moa N={depth}",
        server=count(lambda: make_lsa(config)),
        client=count(lambda: MoaDraft(config, depth)),
        lsa_rows=config.target_layers if config.mixer == PUBLISHED_MIXER else 1,
        depths=config.depths,
        depth=depth,
        state_numbers=config.state_width + 2 * target.key_width * depth,
        cached_numbers=attention + tail,
    )


def eagle(target: TargetDimensions) -> DraftDimensions:
    """EAGLE-1/2 with one layer of the target's own sizes, without an input norm as published."""
    shape = LayerShape(
        target.hidden, target.heads, target.kv_heads, target.head_dim, target.intermediate, input_norm=False
    )
    return DraftDimensions(
        name="eagle",
        server=0,
        client=count(lambda: EagleDraft(EagleConfig(shape))),
        lsa_rows=0,
        depths=(0,),
        depth=0,
        state_numbers=target.hidden,
        cached_numbers=2 * target.key_width + 2 * target.hidden,
        kept_hidden=1,
    )


def eagle3_config(target: TargetDimensions) -> Eagle3Config:
    """The sizes that `outrider-train eagle3` chooses by default."""
    shape = replace(target_layer(frozen(target), input_norm=False), attention_bias=False)
    return Eagle3Config(shape, target.vocabulary, min(DRAFT_VOCABULARY, target.vocabulary))


def eagle3(target: TargetDimensions) -> DraftDimensions:
    """With the target's embedding and a head of its own. The target's comes in the bundle."""
    config = eagle3_config(target)
    return DraftDimensions(
        name="eagle3",
        server=TAPS * target.hidden * config.hidden,
        client=count(lambda: Eagle3Draft(config)),
        lsa_rows=1,
        depths=(0,),
        depth=0,
        state_numbers=config.hidden,
        cached_numbers=2 * target.key_width + 2 * config.hidden,
        kept_hidden=TAPS,
        own_head=True,
    )


LOOKUP = DraftDimensions("lookup", 0, 0, lsa_rows=0, depths=(0,), depth=0, state_numbers=0, cached_numbers=0)


def count(build: Callable[[], nn.Module]) -> int:
    """The number of parameters of a module, which is built on the meta device."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build().parameters())


def state_bytes(draft: DraftDimensions, dtype: str) -> int:
    """Bytes of one position's state on the wire, scales included, before compression."""
    return raw_bytes(dtype, (1, draft.state_numbers))


def bundle_weights(target: TargetDimensions, draft: DraftDimensions) -> int:
    """The number of weights that a client fetches: embedding, head, the draft and the target's layers that it runs."""
    if not draft.client:
        return 0
    return target.embedding_and_head + target.hidden + draft.client + draft.depth * target.layer_parameters


def client_bytes(
    target: TargetDimensions,
    draft: DraftDimensions,
    context: int,
    number_bytes: int = HALF_PRECISION,
    weight_bytes: float | None = None,
) -> int:
    """A client's memory: the tokenizer, weights of `weight_bytes` each where they are quantised, and caches for
    `context` tokens. Of quantised weights, which are mapped, the rows of an embedding alone are hardly in memory."""
    is_mapped = weight_bytes is not None
    unused = 0 if target.tied or not draft.client else target.head_parameters * (draft.own_head + is_mapped)
    held = (bundle_weights(target, draft) - unused) * (number_bytes if weight_bytes is None else weight_bytes)
    cached = context * draft.cached_numbers * number_bytes
    return round(_TOKENIZER_BYTES * target.vocabulary + held + cached)


def bundle_bytes(target: TargetDimensions, draft: DraftDimensions, weight_bytes: float = HALF_PRECISION) -> int:
    """What a client fetches."""
    return round(_TOKENIZER_FILE_BYTES * target.vocabulary + bundle_weights(target, draft) * weight_bytes)


def server_bytes(
    target: TargetDimensions, drafts: Sequence[DraftDimensions], cache_tokens: int, number_bytes: int = HALF_PRECISION
) -> int:
    """A server's memory: the target, the drafts' parts on the server, and for `cache_tokens` tokens K/V and the hidden
    states that the drafts need."""
    weights = target.parameters + sum(draft.server for draft in drafts)
    kept = max((draft.kept_hidden for draft in drafts), default=0) * target.hidden
    return number_bytes * (weights + cache_tokens * (2 * target.layers * target.key_width + kept))


def training_flops(target: TargetDimensions, draft: DraftDimensions) -> int:
    """Floating-point operations of training on one token: 2 for each parameter of a forward pass, 4 more where
    gradients of weights are needed, 2 more where only gradients of inputs are. Attention scores are not counted."""
    frozen_layers = sum(draft.depths) * target.layer_parameters
    heads = len(draft.depths) * target.head_parameters
    forward = 2 * (target.layers * target.layer_parameters + target.head_parameters)
    trained = draft.server * draft.lsa_rows + len(draft.depths) * draft.client
    return forward + 6 * trained + 4 * (frozen_layers + heads)


def export_share(target: TargetDimensions, draft: DraftDimensions) -> float:
    """The work of computing a position's state, relative to the target's forward pass of one token."""
    return draft.server * draft.lsa_rows / (target.layers * target.layer_parameters + target.head_parameters)


def gpu_hours(flops: float, peak: float, utilisation: float) -> float:
    """peak: operations per second. utilisation: 0 to 1."""
    return flops / (peak * utilisation) / 3600
