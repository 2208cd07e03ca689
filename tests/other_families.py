"""Families that tests need besides those of the experiment `families`, of which each has a row in the kept results.

Rows alone may live here; `make_family_checkpoint` makes checkpoints of them.
"""

from netem.experiments.family_checkpoints import HEADS, HIDDEN, WINDOW, Family

_GROUPED = {"num_key_value_heads": 2, "head_dim": HIDDEN // HEADS}

AFMOE = Family(
    "afmoe",
    "gated attention, experts behind dense layers",
    "AfmoeConfig",
    _GROUPED
    | {
        "num_dense_layers": 1,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "num_shared_experts": 1,
        "moe_intermediate_size": 32,
        "sliding_window": WINDOW,
        "global_attn_every_n_layers": 2,
    },
)

DIFF_LLAMA = Family("diffllama", "attention less another's, by the layer's number", "DiffLlamaConfig", _GROUPED)
"""Is refused."""

ERNIE_MOE = Family(
    "ernie4_5-moe",
    "interleaved positions, experts behind dense layers",
    "Ernie4_5_MoeConfig",
    _GROUPED
    | {
        "moe_num_experts": 4,
        "moe_k": 2,
        "moe_num_shared_experts": 1,
        "moe_intermediate_size": 32,
        "moe_layer_start_index": 1,
    },
)

GEMMA_4 = Family(
    "gemma-4",
    "heads of another size in some layers",
    "Gemma4TextConfig",
    _GROUPED
    | {
        "global_head_dim": 3 * HIDDEN // HEADS,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": 0,
    },
)

HUNYUAN_MOE = Family(
    "hunyuan-moe",
    "a router that asks for the dtype of its weights",
    "HunYuanMoEV1Config",
    _GROUPED | {"num_experts": 4, "moe_topk": 2},
)

MINICPM_3 = Family(
    "minicpm3",
    "latent attention, residuals scaled by the number of layers",
    "MiniCPM3Config",
    {
        "num_key_value_heads": HEADS,
        "q_lora_rank": 24,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8,
        "v_head_dim": 8,
    },
)

MINIMAX_M3 = Family(
    "minimax-m3",
    "blocks of keys that an indexer chooses",
    "MiniMaxM3VLTextConfig",
    _GROUPED
    | {
        "layer_types": ["full_attention", "minimax_m3_sparse"] * 2,
        "index_n_heads": 2,
        "index_head_dim": 16,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "dense_intermediate_size": 96,
        "shared_intermediate_size": 32,
    },
)
"""Is refused."""

PHI_MOE = Family(
    "phimoe",
    "a window in all layers, told to the mask alone",
    "PhimoeConfig",
    {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": WINDOW},
)

SERVED = {family.name: family for family in (AFMOE, ERNIE_MOE, GEMMA_4, HUNYUAN_MOE, PHI_MOE)}
