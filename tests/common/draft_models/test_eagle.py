"""EAGLE drafts on disk: ours, and those in the layout that its authors publish."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import linear, scaled_dot_product_attention, silu

from common.draft_models.directory import read_draft_kind
from common.draft_models.eagle import EagleConfig, EagleDraft, load_eagle, save_eagle
from common.draft_models.layers import LayerShape, masked_attention
from common.models.errors import CheckpointError
from common.models.rope import RopeScaling
from tests.sharded import shard

HIDDEN, HEADS, INTERMEDIATE = 32, 4, 40
HEAD_NORMS = {f"layers.0.self_attn.{name}_norm.weight": (HIDDEN // HEADS,) for name in "qk"}
LLAMA_2 = {"num_key_value_heads": 4, "rms_norm_eps": 1e-6}
LLAMA_3 = {"num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 500_000.0}


def write_published(directory, special, *, fc_bias=True, attention_bias=False, extra=None, layers=1):
    """A checkpoint as EAGLE's authors publish theirs: sizes like Llama's, with the target's embedding among the
    tensors. Each of `layers` but the first has a norm at its input."""
    directory.mkdir()
    kv_heads = special["num_key_value_heads"]
    dim = HIDDEN // HEADS
    shapes = {"embed_tokens.weight": (60, HIDDEN), "fc.weight": (HIDDEN, 2 * HIDDEN)}
    if fc_bias:
        shapes["fc.bias"] = (HIDDEN,)
    for layer in (f"layers.{index}" for index in range(layers)):
        if layer != "layers.0":
            shapes[f"{layer}.input_layernorm.weight"] = (HIDDEN,)
        shapes |= {
            f"{layer}.self_attn.q_proj.weight": (HIDDEN, HIDDEN),
            f"{layer}.self_attn.k_proj.weight": (kv_heads * dim, HIDDEN),
            f"{layer}.self_attn.v_proj.weight": (kv_heads * dim, HIDDEN),
            f"{layer}.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
            f"{layer}.mlp.gate_proj.weight": (INTERMEDIATE, HIDDEN),
            f"{layer}.mlp.up_proj.weight": (INTERMEDIATE, HIDDEN),
            f"{layer}.mlp.down_proj.weight": (HIDDEN, INTERMEDIATE),
            f"{layer}.post_attention_layernorm.weight": (HIDDEN,),
        }
        if attention_bias:
            widths = {"q": HIDDEN, "k": kv_heads * dim, "v": kv_heads * dim}
            shapes |= {f"{layer}.self_attn.{name}_proj.bias": (width,) for name, width in widths.items()}
    shapes |= extra or {}
    generator = torch.Generator().manual_seed(3)
    tensors = {name: torch.randn(shape, generator=generator).double() * 0.3 for name, shape in shapes.items()}
    save_file(tensors, directory / "model.safetensors")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": 1,
        "vocab_size": 60,
        "rope_scaling": None,
        **special,
    }
    (directory / "config.json").write_text(json.dumps(config))
    return tensors


def as_speculators(directory, tensors):
    """Rewrites a published checkpoint into the layout of speculators, `fusion_fc` and `transformer`."""
    config = json.loads((directory / "config.json").read_text())
    renamed = {
        name.replace("fc.", "fusion_fc.").replace("layers.0.", "transformer."): tensor
        for name, tensor in tensors.items()
        if not name.startswith("embed_tokens.")
    }
    save_file(renamed, directory / "model.safetensors")
    outer = {
        "architectures": ["EagleSpeculator", "LlamaDecoderLayer"],
        "speculators_model_type": "eagle",
        "layernorms": False,
        "fusion_bias": "fc.bias" in tensors,
        "transformer_layer_config": config,
    }
    (directory / "config.json").write_text(json.dumps(outer))


def published_output(tensors, special, embedded, features):
    """The output of the published network, computed from its tensors: `[T, E]` each."""
    x = linear(torch.cat([embedded, features], -1), tensors["fc.weight"], tensors.get("fc.bias"))
    for layer in range(special.get("num_hidden_layers", 1)):
        prefix = f"layers.{layer}."
        weight = {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}
        x = published_layer(weight, special, x)
    return x


def published_layer(weight, special, x):
    """One Llama layer over a causal sequence `[T, E]`; the first has no norm at its input."""
    length, dim = len(x), HIDDEN // HEADS

    def normed(vectors, name):
        scale = (vectors.pow(2).mean(-1, keepdim=True) + special["rms_norm_eps"]).rsqrt()
        return vectors * scale * weight[name] if name in weight else vectors

    read = normed(x, "input_layernorm.weight")

    def heads(name):
        bias = weight.get(f"self_attn.{name}_proj.bias")
        out = linear(read, weight[f"self_attn.{name}_proj.weight"], bias).view(length, -1, dim).transpose(0, 1)
        return normed(out, f"self_attn.{name}_norm.weight")

    frequencies = special.get("rope_theta", 10_000.0) ** (-torch.arange(0, dim, 2).double() / dim)
    if (special.get("rope_scaling") or {}).get("type") == "linear":
        frequencies = frequencies / special["rope_scaling"]["factor"]
    angles = torch.arange(length).double()[:, None] * frequencies
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()

    def rotated(h):
        return h * cos + torch.cat([-h[..., dim // 2 :], h[..., : dim // 2]], -1) * sin

    repeats = HEADS // special["num_key_value_heads"]
    keys, values = (each.repeat_interleave(repeats, 0) for each in (rotated(heads("k")), heads("v")))
    attended = scaled_dot_product_attention(rotated(heads("q")), keys, values, is_causal=True)
    x = x + linear(attended.transpose(0, 1).reshape(length, -1), weight["self_attn.o_proj.weight"])
    inner = normed(x, "post_attention_layernorm.weight")
    gated = silu(linear(inner, weight["mlp.gate_proj.weight"])) * linear(inner, weight["mlp.up_proj.weight"])
    return x + linear(gated, weight["mlp.down_proj.weight"])


def assert_computes(directory, tensors, special):
    """The draft in `directory` computes what its authors' network does with `tensors`."""
    draft, kept = load_eagle(directory)
    assert kept is None
    generator = torch.Generator().manual_seed(4)
    embedded, features = torch.randn(2, 9, HIDDEN, generator=generator).double()
    causal = masked_attention(torch.ones(9, 9, dtype=torch.bool).tril())
    entered = draft.double().enter(embedded[None], features[None])
    found = draft(entered, torch.arange(9)[None], *[causal] * len(draft.config.layers))[0]
    torch.testing.assert_close(found, published_output(tensors, special, embedded, features), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("speculators", [False, True])
@pytest.mark.parametrize(
    ("special", "biases"),
    [
        (LLAMA_2, {}),
        (LLAMA_3, {}),
        (LLAMA_3, {"fc_bias": False}),
        (LLAMA_3, {"attention_bias": True}),
        ({**LLAMA_3, "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}}, {}),
        ({**LLAMA_3, "rope_scaling": {"type": "linear", "factor": 2.0}}, {"extra": HEAD_NORMS}),
        ({**LLAMA_3, "rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]}}, {}),
        ({**LLAMA_3, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, {}),
    ],
)
@pytest.mark.parametrize("sharded", [False, True], ids=["one file", "shards"])
def test_a_published_checkpoint_computes_what_it_did_for_its_authors(tmp_path, special, biases, speculators, sharded):
    tensors = write_published(tmp_path / "eagle", special, **biases)
    if speculators:
        as_speculators(tmp_path / "eagle", tensors)
    if sharded:
        shard(tmp_path / "eagle")
    assert read_draft_kind(tmp_path / "eagle").name == "eagle"
    assert_computes(tmp_path / "eagle", tensors, special)


@pytest.mark.parametrize(
    ("special", "made"),
    [
        ({**LLAMA_3, "num_hidden_layers": 2}, {"layers": 2}),
        ({**LLAMA_2, "num_hidden_layers": 3}, {"layers": 3, "attention_bias": True}),
    ],
)
def test_a_published_checkpoint_of_several_layers_computes_what_it_did_for_its_authors(tmp_path, special, made):
    tensors = write_published(tmp_path / "eagle", special, **made)
    assert_computes(tmp_path / "eagle", tensors, special)


def test_layers_that_a_configuration_does_not_count_are_read_too(tmp_path):
    tensors = write_published(tmp_path / "eagle", {**LLAMA_3, "num_hidden_layers": 1}, layers=2)
    assert_computes(tmp_path / "eagle", tensors, {**LLAMA_3, "num_hidden_layers": 2})


def test_a_layer_that_is_counted_and_not_there_is_named(tmp_path):
    write_published(tmp_path / "eagle", {**LLAMA_3, "num_hidden_layers": 2})
    with pytest.raises(CheckpointError, match=r"lacks 'layers\.1\.self_attn\.q_proj\.weight'"):
        load_eagle(tmp_path / "eagle")


@pytest.mark.parametrize("further", [0, 2])
def test_a_draft_of_ours_is_read_as_it_was_written(tmp_path, further):
    torch.manual_seed(0)
    layer = LayerShape(HIDDEN, 4, 2, 8, 40, 5e5, 1e-6, input_norm=False, rope_scaling=RopeScaling("linear", 2.0))
    behind = tuple(replace(layer, input_norm=True, sliding_window=5) for _ in range(further))
    draft = EagleDraft(EagleConfig(layer, bias=False, further=behind))
    kept = torch.tensor([1, 5, 7])
    save_eagle(tmp_path, "f" * 64, draft, kept)
    assert read_draft_kind(tmp_path).name == "eagle"
    read, tokens = load_eagle(tmp_path)
    assert read.config == draft.config
    assert torch.equal(tokens, kept)
    for name, tensor in draft.state_dict().items():
        assert torch.equal(read.state_dict()[name], tensor)
    assert not any(parameter.requires_grad for parameter in read.parameters())


def test_a_draft_without_a_trimmed_head_names_no_tokens(tmp_path):
    save_eagle(tmp_path, "f" * 64, EagleDraft(EagleConfig(LayerShape(HIDDEN, 4, 2, 8, 40))))
    assert load_eagle(tmp_path)[1] is None


def test_pickled_weights_are_refused_in_one_sentence(tmp_path):
    write_published(tmp_path / "eagle", LLAMA_3)
    (tmp_path / "eagle" / "model.safetensors").rename(tmp_path / "eagle" / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin.*model\.safetensors"):
        load_eagle(tmp_path / "eagle")


@pytest.mark.parametrize(
    ("special", "extra", "message"),
    [
        ({**LLAMA_3, "rope_scaling": {"type": "longrope", "factor": 2.0}}, {}, "scales its rotary positions in a way"),
        ({**LLAMA_3, "rope_scaling": {"type": "llama3", "factor": 2.0}}, {}, "scales its rotary positions in a way"),
        ({**LLAMA_3, "hidden_act": "gelu"}, {}, "another activation than SiLU"),
        (LLAMA_3, {"layers.1.self_attn.q_proj.weight": (4, 4)}, r"lacks 'layers\.1\.self_attn\.k_proj\.weight'"),
        ({**LLAMA_3, "hidden_size": None}, {}, "lacks the sizes"),
        ({**LLAMA_3, "intermediate_size": 8}, {}, "do not fit"),
    ],
)
def test_a_checkpoint_that_is_no_eagle_draft_of_such_layers_is_refused(tmp_path, special, extra, message):
    write_published(tmp_path / "eagle", special, extra=extra)
    with pytest.raises(CheckpointError, match=message):
        load_eagle(tmp_path / "eagle")


@pytest.mark.parametrize("speculators", [False, True])
def test_a_setting_that_changes_what_is_computed_is_refused_by_its_name(tmp_path, speculators):
    """As in MiniCPM's own EAGLE drafts."""
    tensors = write_published(tmp_path / "eagle", {**LLAMA_3, "scale_emb": 12, "scale_depth": 1.4})
    if speculators:
        as_speculators(tmp_path / "eagle", tensors)
    with pytest.raises(CheckpointError, match=r"has a 'scale_depth' of 1\.4, which is not computed here"):
        load_eagle(tmp_path / "eagle")


OF_EMBEDDINGS = {"input_embedding_scale": 7.0, "embedding_multiplier": 12.0, "scale_emb": 12}
OF_HEADS = {
    "logit_scale": 0.0625,
    "logits_scaling": 8.0,
    "output_multiplier": 0.5,
    "dim_model_base": 256,
    "final_logit_softcapping": 30.0,
}


@pytest.mark.parametrize("speculators", [False, True])
def test_how_a_target_scales_its_embedding_and_head_is_no_setting_of_its_draft(tmp_path, speculators):
    """Which has neither of its own, whatever it copies from the target's configuration."""
    tensors = write_published(tmp_path / "eagle", LLAMA_3 | OF_EMBEDDINGS | OF_HEADS)
    if speculators:
        as_speculators(tmp_path / "eagle", tensors)
    load_eagle(tmp_path / "eagle")


def test_the_variant_with_further_norms_is_refused_by_the_first_of_them(tmp_path):
    norm = {"layers.0.input_layernorm.weight": (HIDDEN,)}
    as_speculators(tmp_path / "eagle", write_published(tmp_path / "eagle", LLAMA_3, extra=norm))
    with pytest.raises(CheckpointError, match=r"speculators, but holds 'transformer\.input_layernorm\.weight'"):
        load_eagle(tmp_path / "eagle")


def test_missing_tensors_are_named(tmp_path):
    tensors = write_published(tmp_path / "eagle", LLAMA_3)
    left = {name: each for name, each in tensors.items() if "mlp" not in name}
    save_file(left, tmp_path / "eagle" / "model.safetensors")
    names = r"'layers\.0\.mlp\.gate_proj\.weight', 'layers\.0\.mlp\.up_proj\.weight', 'layers\.0\.mlp\.down"
    with pytest.raises(CheckpointError, match="as its authors publish it, but lacks " + names):
        load_eagle(tmp_path / "eagle")


def test_a_directory_of_another_kind_is_refused(tmp_path):
    save_eagle(tmp_path, "f" * 64, EagleDraft(EagleConfig(LayerShape(HIDDEN, 4, 2, 8, 40))))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"outrider_draft": "medusa"}))
    with pytest.raises(CheckpointError, match="kind 'medusa'"):
        load_eagle(tmp_path)
