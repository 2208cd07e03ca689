"""The shape of the demo target.

What may live here: its configuration and fresh models. It may not know data, training or files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT = 2048


@dataclass(frozen=True)
class Shape:
    """Sizes of one Llama model, widths in features, and the tokens of a batch that it trains on."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    key_value_heads: int
    head: int
    batch_tokens: int = 4096


TARGET = Shape(layers=12, hidden=192, intermediate=512, heads=6, key_value_heads=2, head=32)
LARGE = Shape(layers=24, hidden=768, intermediate=2048, heads=12, key_value_heads=4, head=64, batch_tokens=32768)
"""150 M parameters, for a GPU: it learns as many tokens in a second as one core makes."""

SHAPES = {"shipped": TARGET, "large": LARGE}


def new_model(shape: Shape, tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """A freshly initialised float32 model with tied embeddings; equal seeds give equal weights.

    It computes attention as plain matrix products: on rows of a few hundred tokens these train a quarter faster on a
    CPU than torch's flash kernel does.
    """
    torch.manual_seed(seed)
    configuration: Any = LlamaConfig
    return LlamaForCausalLM(
        configuration(
            vocab_size=len(tokenizer),
            hidden_size=shape.hidden,
            intermediate_size=shape.intermediate,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.key_value_heads,
            head_dim=shape.head,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            attn_implementation="eager",
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
