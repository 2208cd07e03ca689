"""Small random checkpoints of many families, saved as Hugging Face directories.

What may live here: one table of families with what is special in each, and making a checkpoint of a row. Weights depend
on the arguments alone. It may not know passes, sessions or drafts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

HIDDEN = 48
LAYERS = 4
HEADS = 6
VOCABULARY = 300
WINDOW = 12
"""The sliding window, or the chunk, of layers that have one: shorter than every test's text."""

_SHARD_BYTES = "60KB"

_GROUPED = {"num_key_value_heads": 2, "head_dim": HIDDEN // HEADS}
_MIXED = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
_EXPERTS = {"moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}
SPREAD = 0.2
"""The standard deviation of the weights. It spreads the logits, so that the two likeliest tokens are seldom near each
other; initialisers' 0.02 would leave all tokens about equally likely."""


@dataclass(frozen=True, slots=True)
class Family:
    """A row: transformers' configuration class and its arguments beside the common sizes."""

    name: str
    special: str
    """What its passes must get right, in few words."""
    config: str
    options: Mapping[str, Any] = field(default_factory=dict)
    in_shards: bool = False


def _rope(rope_type: str, **options: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": 10_000.0, **options}}


FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family("llama", "grouped heads", "LlamaConfig", _GROUPED),
        Family(
            "llama3",
            "llama3 positions",
            "LlamaConfig",
            _GROUPED
            | _rope(
                "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16
            ),
        ),
        Family("llama-linear", "linear positions", "LlamaConfig", _GROUPED | _rope("linear", factor=4.0)),
        Family("llama-dynamic", "dynamic positions", "LlamaConfig", _GROUPED | _rope("dynamic", factor=4.0)),
        Family(
            "qwen2-mrope", "sections of positions", "Qwen2Config", _GROUPED | _rope("default", mrope_section=[1, 1, 2])
        ),
        Family(
            "qwen2",
            "a window in the last layers",
            "Qwen2Config",
            {"num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2},
            in_shards=True,
        ),
        Family("qwen3", "norms of queries and keys", "Qwen3Config", _GROUPED),
        Family("mistral", "a window in all layers", "MistralConfig", _GROUPED | {"sliding_window": WINDOW}),
        Family("gemma", "scaled embeddings", "GemmaConfig", _GROUPED),
        Family(
            "gemma2",
            "capped scores and logits, a window in some layers",
            "Gemma2Config",
            _GROUPED
            | {
                "sliding_window": WINDOW,
                "layer_types": _MIXED,
                "query_pre_attn_scalar": 8,
                "attn_logit_softcapping": 2.0,
                "final_logit_softcapping": 20.0,
            },
            in_shards=True,
        ),
        Family(
            "gemma3",
            "positions by type of layer",
            "Gemma3TextConfig",
            _GROUPED | {"sliding_window": WINDOW, "layer_types": _MIXED, "query_pre_attn_scalar": 8},
        ),
        Family("phi", "part of a head turns, parallel layers", "PhiConfig", {"num_key_value_heads": 2}),
        Family("phi3", "one projection for all", "Phi3Config", {"num_key_value_heads": 2, "sliding_window": WINDOW}),
        Family(
            "phi3-longrope",
            "longrope positions, up to the trained ones",
            "Phi3Config",
            {"num_key_value_heads": 2, "max_position_embeddings": 512, "original_max_position_embeddings": 128}
            | _rope(
                "longrope",
                short_factor=[1.0, 1.5, 2.0, 2.5],
                long_factor=[4.0, 8.0, 16.0, 32.0],
                original_max_position_embeddings=128,
            ),
        ),
        Family("olmo2", "norms behind", "Olmo2Config", {"num_key_value_heads": 2}),
        Family(
            "olmo3",
            "yarn positions, a window in some layers",
            "Olmo3Config",
            {"num_key_value_heads": 2, "sliding_window": WINDOW, "layer_types": _MIXED}
            | _rope("yarn", factor=4.0, original_max_position_embeddings=16),
            in_shards=True,
        ),
        Family(
            "granite",
            "multipliers of embeddings, residuals, scores and logits",
            "GraniteConfig",
            {
                "num_key_value_heads": 2,
                "embedding_multiplier": 3.0,
                "residual_multiplier": 0.5,
                "attention_multiplier": 0.3,
                "logits_scaling": 0.5,
            },
        ),
        Family(
            "smollm3",
            "layers without positions",
            "SmolLM3Config",
            {"num_key_value_heads": 2, "no_rope_layers": [1, 0, 1, 0], "use_sliding_window": False},
        ),
        Family("starcoder2", "layer norms", "Starcoder2Config", {"num_key_value_heads": 2, "sliding_window": WINDOW}),
        Family(
            "glm4",
            "four norms, part of a head turns, three end tokens",
            "Glm4Config",
            _GROUPED | {"eos_token_id": [0, 1, 2]},
        ),
        Family("ernie4_5", "interleaved positions", "Ernie4_5Config", _GROUPED),
        Family("hunyuan", "norms behind positions", "HunYuanDenseV1Config", _GROUPED),
        Family(
            "exaone4",
            "full layers without positions",
            "Exaone4Config",
            {"num_key_value_heads": 2, "sliding_window": WINDOW, "layer_types": _MIXED},
        ),
        Family("qwen3-moe", "experts", "Qwen3MoeConfig", _GROUPED | _EXPERTS | {"norm_topk_prob": True}),
        Family(
            "qwen2-moe",
            "experts, a window that only the mask is told",
            "Qwen2MoeConfig",
            {"num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": WINDOW, "layer_types": _MIXED}
            | _EXPERTS
            | {"shared_expert_intermediate_size": 32},
        ),
        Family(
            "mixtral",
            "experts",
            "MixtralConfig",
            _GROUPED | {"num_local_experts": 4, "sliding_window": WINDOW},
            in_shards=True,
        ),
        Family(
            "granite-moe",
            "experts and multipliers",
            "GraniteMoeConfig",
            {
                "num_key_value_heads": 2,
                "num_local_experts": 4,
                "num_experts_per_tok": 2,
                "attention_multiplier": 0.3,
                "embedding_multiplier": 3.0,
                "logits_scaling": 0.5,
            },
        ),
        Family(
            "gpt-oss",
            "attention sinks, experts",
            "GptOssConfig",
            _GROUPED
            | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": WINDOW, "layer_types": _MIXED}
            | _rope("yarn", factor=4.0, original_max_position_embeddings=16),
        ),
        Family("cohere", "scaled logits", "CohereConfig", {"num_key_value_heads": 2, "logit_scale": 0.5}),
        Family(
            "cohere2",
            "full layers without positions, scaled logits",
            "Cohere2Config",
            {"num_key_value_heads": 2, "logit_scale": 0.5, "sliding_window": WINDOW, "layer_types": _MIXED},
        ),
        Family("stablelm", "loses an argument", "StableLmConfig", {"num_key_value_heads": 2}),
        Family("gpt2", "another layout, learned positions", "GPT2Config"),
        Family("gpt-neox", "another head, one projection for all", "GPTNeoXConfig"),
        Family(
            "llama4",
            "chunks of attention, layers without positions",
            "Llama4TextConfig",
            _GROUPED
            | {
                "attention_chunk_size": WINDOW,
                "no_rope_layers": [1, 0, 1, 0],
                "num_local_experts": 4,
                "attn_temperature_tuning": False,
                "intermediate_size_mlp": 96,
            },
        ),
        Family(
            "deepseek-v3",
            "latent attention: values of another width",
            "DeepseekV3Config",
            {
                "num_key_value_heads": HEADS,
                "q_lora_rank": 24,
                "kv_lora_rank": 16,
                "qk_rope_head_dim": 8,
                "qk_nope_head_dim": 8,
                "v_head_dim": 12,
                "n_routed_experts": 4,
                "n_group": 2,
                "topk_group": 1,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 32,
                "first_k_dense_replace": 1,
            },
        ),
    )
}


def make_family_checkpoint(
    directory: Path, family: Family, *, layers: int = LAYERS, seed: int = 0, dtype: torch.dtype = torch.float32
) -> Path:
    """Saves a random model of the family with a tokenizer beside it; returns `directory`."""
    _be_quiet()
    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    config = getattr(transformers, family.config)(**{**shape, **family.options})
    torch.manual_seed(seed)
    make: Callable[..., Any] = AutoModelForCausalLM.from_config
    model = make(config, dtype=dtype)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Norms and biases must not be trivial.
            offset = 1.0 if "norm" in name or ".ln_" in name else 0.0
            weight.copy_(offset + torch.randn(weight.shape, dtype=torch.float64) * SPREAD)
    model.save_pretrained(directory, max_shard_size=_SHARD_BYTES if family.in_shards else "1GB")
    _make_tokenizer().save_pretrained(directory)
    return directory


def make_draft_checkpoint(target: Path, directory: Path, seed: int = 0) -> Path:
    """Saves the target with noise of a tenth of its weights' spread, a draft model that is right now and then."""
    _be_quiet()
    torch.manual_seed(seed)
    model: Any = AutoModelForCausalLM.from_pretrained(target)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape) * (SPREAD / 10))
    model.save_pretrained(directory)
    _make_tokenizer().save_pretrained(directory)
    return directory


def _make_tokenizer() -> PreTrainedTokenizerFast:
    """One word for each token; token 0 ends an answer."""
    words = Tokenizer(WordLevel({f"t{token}": token for token in range(VOCABULARY)}, unk_token="t0"))
    words.pre_tokenizer = Whitespace()
    make: Callable[..., PreTrainedTokenizerFast] = PreTrainedTokenizerFast
    return make(tokenizer_object=words, eos_token="t0", unk_token="t0", pad_token="t0")


def _be_quiet() -> None:
    silencers: tuple[Callable[[], None], ...] = (logging.set_verbosity_error, logging.disable_progress_bar)
    for silence in silencers:
        silence()
