"""A small DFlash draft in exactly the form in which its authors publish them, with random weights."""

import json

import torch
from safetensors.torch import save_file

LAYER_IDS, LENGTH, MASK = (0, 2), 6, 5
HEADS, KV_HEADS, DIM, WIDTH, BASE, EPSILON = 4, 2, 16, 40, 20_000.0, 1e-6


def config(hidden, vocabulary, layers=2):
    return {
        "architectures": ["DFlashDraftModel"],
        "attention_bias": False,
        "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
        "block_size": LENGTH,
        "dflash_config": {"mask_token_id": MASK, "target_layer_ids": list(LAYER_IDS)},
        "dtype": "bfloat16",
        "head_dim": DIM,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": WIDTH,
        "layer_types": ["full_attention"] * layers,
        "max_position_embeddings": 4096,
        "max_window_layers": layers,
        "model_type": "qwen3",
        "num_attention_heads": HEADS,
        "num_hidden_layers": layers,
        "num_key_value_heads": KV_HEADS,
        "num_target_layers": 4,
        "rms_norm_eps": EPSILON,
        "rope_scaling": None,
        "rope_theta": BASE,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "vocab_size": vocabulary,
    }


def tensors(hidden, layers=2):
    shapes = {"fc.weight": (hidden, len(LAYER_IDS) * hidden), "hidden_norm.weight": (hidden,), "norm.weight": (hidden,)}
    for layer in range(layers):
        own = {
            "self_attn.q_proj": (HEADS * DIM, hidden),
            "self_attn.k_proj": (KV_HEADS * DIM, hidden),
            "self_attn.v_proj": (KV_HEADS * DIM, hidden),
            "self_attn.o_proj": (hidden, HEADS * DIM),
            "self_attn.q_norm": (DIM,),
            "self_attn.k_norm": (DIM,),
            "mlp.gate_proj": (WIDTH, hidden),
            "mlp.up_proj": (WIDTH, hidden),
            "mlp.down_proj": (hidden, WIDTH),
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
        }
        shapes |= {f"layers.{layer}.{name}.weight": shape for name, shape in own.items()}
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) * 0.3 for name, shape in shapes.items()}


def write(directory, hidden, vocabulary, held=None, **changes):
    """`held`: the tensors, `changes` to the configuration."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config(hidden, vocabulary) | changes))
    save_file(tensors(hidden) if held is None else held, directory / "model.safetensors")
    return directory
