"""EAGLE-3 checkpoints in exactly the published forms, and their equations in plain torch, from the tensors as they were
written."""

import json

import torch
from safetensors.torch import save_file
from torch.nn.functional import linear, scaled_dot_product_attention, silu
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

HIDDEN, HEADS, KV_HEADS, INTERMEDIATE, VOCAB = 32, 4, 2, 40, 60
KEPT = [1, 4, 5, 9, 22, 23, 58]
DIM = HIDDEN // HEADS
LAYOUTS = ("authors", "speculators")
LAYER = {"authors": "midlayer", "speculators": "layers.0"}


def tensors_of(
    layout,
    *,
    bias=False,
    embedding=False,
    trimmed=True,
    target_hidden=HIDDEN,
    layers=1,
    head_norms=False,
    head=True,
    norm_all=False,
    norm_each=False,
    seed=3,
):
    names = [LAYER[layout], *(f"layers.{layer}" for layer in range(1, layers))]
    shapes = {
        "fc.weight": (HIDDEN, 3 * target_hidden),
        "norm.weight": (HIDDEN,),
        f"{names[0]}.hidden_norm.weight": (HIDDEN,),
    }
    for layer in names:
        read = 2 * HIDDEN if layer == names[0] else HIDDEN
        shapes |= {
            f"{layer}.input_layernorm.weight": (HIDDEN,),
            f"{layer}.post_attention_layernorm.weight": (HIDDEN,),
            f"{layer}.self_attn.q_proj.weight": (HIDDEN, read),
            f"{layer}.self_attn.k_proj.weight": (KV_HEADS * DIM, read),
            f"{layer}.self_attn.v_proj.weight": (KV_HEADS * DIM, read),
            f"{layer}.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
            f"{layer}.mlp.gate_proj.weight": (INTERMEDIATE, HIDDEN),
            f"{layer}.mlp.up_proj.weight": (INTERMEDIATE, HIDDEN),
            f"{layer}.mlp.down_proj.weight": (HIDDEN, INTERMEDIATE),
        }
        if head_norms:
            shapes |= {f"{layer}.self_attn.{name}_norm.weight": (DIM,) for name in "qk"}
        if bias:
            widths = (("q", HIDDEN), ("k", KV_HEADS * DIM), ("v", KV_HEADS * DIM), ("o", HIDDEN))
            shapes |= {f"{layer}.self_attn.{name}_proj.bias": (width,) for name, width in widths}
    if head:
        shapes["lm_head.weight"] = (len(KEPT) if trimmed else VOCAB, HIDDEN)
    if bias:
        shapes["fc.bias"] = (HIDDEN,)
    if norm_all:
        shapes["input_norm.weight"] = (3 * target_hidden,)
    if norm_each:
        shapes |= {f"fc_norm.{tap}.weight": (target_hidden,) for tap in range(3)}
    if embedding:
        shapes["embed_tokens.weight"] = (VOCAB, HIDDEN)
    generator = torch.Generator().manual_seed(seed)
    tensors = {name: torch.randn(shape, generator=generator).double() * 0.3 for name, shape in shapes.items()}
    if trimmed:
        tensors["d2t"] = torch.tensor([token - row for row, token in enumerate(KEPT)])
        tensors["t2d"] = torch.tensor([token in KEPT for token in range(VOCAB)])
    return tensors


def write(directory, layout, tensors, of_layers=None, **special):
    """A checkpoint in exactly the published form; `of_layers` are settings of its layers."""
    directory.mkdir()
    save_file(tensors, directory / "model.safetensors")
    sizes = {
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": 1,
        "rms_norm_eps": 1e-5,
        "vocab_size": VOCAB,
        **(of_layers or {}),
    }
    rows = len(tensors["lm_head.weight"]) if "lm_head.weight" in tensors else VOCAB
    if layout == "authors":
        config = {"architectures": ["LlamaForCausalLMEagle3"], **sizes, "draft_vocab_size": rows}
    else:
        verifier = {"name_or_path": "some/target", "architectures": ["LlamaForCausalLM"]}
        config = {
            "architectures": ["Eagle3Speculator"],
            "speculators_model_type": "eagle3",
            "transformer_layer_config": sizes,
            "draft_vocab_size": rows,
            "norm_before_residual": False,
            "speculators_config": {
                "algorithm": "eagle3",
                "default_proposal_method": "greedy",
                "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}],
                "verifier": verifier,
            },
        }
    (directory / "config.json").write_text(json.dumps(config | special))
    return directory


def normed(x, weight):
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


def published_fusion(tensors, states):
    """Fused states `[T, E]` of `states [T, 3 * E_t]`."""
    if "input_norm.weight" in tensors:
        states = normed(states, tensors["input_norm.weight"])
    if "fc_norm.0.weight" in tensors:
        parts = states.chunk(3, -1)
        states = torch.cat([normed(part, tensors[f"fc_norm.{tap}.weight"]) for tap, part in enumerate(parts)], -1)
    return linear(states, tensors["fc.weight"], tensors.get("fc.bias"))


def published_layer(weight, x, residual, of_layers, layer):
    """One Llama layer over a causal sequence: `x [T, ...]` is what attention reads."""

    def heads(name):
        out = linear(x, weight[f"self_attn.{name}_proj.weight"], weight.get(f"self_attn.{name}_proj.bias"))
        out = out.view(len(x), -1, DIM).transpose(0, 1)
        return (
            normed(out, weight[f"self_attn.{name}_norm.weight"]) if f"self_attn.{name}_norm.weight" in weight else out
        )

    scaling = of_layers.get("rope_scaling") or {"rope_type": "default"}
    frequencies, magnitude = 10_000.0 ** (-torch.arange(0, DIM, 2).double() / DIM), 1.0
    if scaling["rope_type"] != "default":
        config = LlamaConfig(
            hidden_size=HIDDEN, num_attention_heads=HEADS, rope_parameters=scaling | {"rope_theta": 1e4}
        )
        frequencies, magnitude = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu")
    angles = torch.arange(len(x)).double()[:, None] * frequencies.double()
    cos, sin = (turned(torch.cat([angles, angles], -1)) * magnitude for turned in (torch.cos, torch.sin))

    def rotated(h):
        return h * cos + torch.cat([-h[..., DIM // 2 :], h[..., : DIM // 2]], -1) * sin

    keys, values = (each.repeat_interleave(HEADS // KV_HEADS, 0) for each in (rotated(heads("k")), heads("v")))
    distance = torch.arange(len(x))[:, None] - torch.arange(len(x))[None]
    slides = of_layers.get("layer_types", ["full_attention"] * 9)[layer] == "sliding_attention"
    seen = (distance >= 0) & (distance < (of_layers["sliding_window"] if slides else len(x)))
    attended = scaled_dot_product_attention(rotated(heads("q")), keys, values, attn_mask=seen)
    merged = attended.transpose(0, 1).reshape(len(x), -1)
    out = residual + linear(merged, weight["self_attn.o_proj.weight"], weight.get("self_attn.o_proj.bias"))
    inner = normed(out, weight["post_attention_layernorm.weight"])
    gated = silu(linear(inner, weight["mlp.gate_proj.weight"])) * linear(inner, weight["mlp.up_proj.weight"])
    return out + linear(gated, weight["mlp.down_proj.weight"])


def published_step(tensors, layout, embedded, features, special, of_layers, target_head):
    """What a row hands to the next `[T, E]`, and logits over the draft's vocabulary, of a causal sequence. A draft
    without a head uses the weights `target_head` (vLLM, SGLang)."""

    def of(layer):
        return {name.removeprefix(f"{layer}."): each for name, each in tensors.items() if name.startswith(f"{layer}.")}

    weight = of(LAYER[layout])
    feature = normed(features, weight["hidden_norm.weight"])
    x = torch.cat([normed(embedded, weight["input_layernorm.weight"]), feature], -1)
    out = published_layer(weight, x, feature if special.get("norm_before_residual") else features, of_layers, 0)
    for layer in range(1, of_layers.get("num_hidden_layers", 1)):
        weight = of(f"layers.{layer}")
        out = published_layer(weight, normed(out, weight["input_layernorm.weight"]), out, of_layers, layer)
    last = normed(out, tensors["norm.weight"])
    norms_output = (special.get("eagle_config") or special).get("norm_output")
    return last if norms_output else out, linear(last, tensors.get("lm_head.weight", target_head))
