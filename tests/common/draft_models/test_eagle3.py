"""EAGLE-3 drafts on disk: ours, as their authors publish them, and in the layout of speculators."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import linear, scaled_dot_product_attention, silu
from transformers import PreTrainedConfig

from common.draft_models.directory import check_sizes, read_draft_kind
from common.draft_models.eagle3 import (
    Eagle3Config,
    Eagle3Draft,
    default_taps,
    load_eagle3,
    load_fuse,
    read_facts,
    read_taps,
    save_eagle3,
)
from common.draft_models.layers import LayerShape, masked_attention
from common.models.errors import CheckpointError

HIDDEN, HEADS, KV_HEADS, INTERMEDIATE, VOCAB = 32, 4, 2, 40, 60
KEPT = [1, 4, 5, 9, 22, 23, 58]
DIM = HIDDEN // HEADS
LAYOUTS = ("authors", "speculators")
LAYER = {"authors": "midlayer", "speculators": "layers.0"}


def tensors_of(layout, *, bias=False, embedding=False, trimmed=True, target_hidden=HIDDEN, seed=3):
    layer = LAYER[layout]
    shapes = {
        "fc.weight": (HIDDEN, 3 * target_hidden),
        "norm.weight": (HIDDEN,),
        "lm_head.weight": (len(KEPT) if trimmed else VOCAB, HIDDEN),
        f"{layer}.input_layernorm.weight": (HIDDEN,),
        f"{layer}.hidden_norm.weight": (HIDDEN,),
        f"{layer}.post_attention_layernorm.weight": (HIDDEN,),
        f"{layer}.self_attn.q_proj.weight": (HIDDEN, 2 * HIDDEN),
        f"{layer}.self_attn.k_proj.weight": (KV_HEADS * DIM, 2 * HIDDEN),
        f"{layer}.self_attn.v_proj.weight": (KV_HEADS * DIM, 2 * HIDDEN),
        f"{layer}.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
        f"{layer}.mlp.gate_proj.weight": (INTERMEDIATE, HIDDEN),
        f"{layer}.mlp.up_proj.weight": (INTERMEDIATE, HIDDEN),
        f"{layer}.mlp.down_proj.weight": (HIDDEN, INTERMEDIATE),
    }
    if bias:
        shapes["fc.bias"] = (HIDDEN,)
        for name, width in (("q", HIDDEN), ("k", KV_HEADS * DIM), ("v", KV_HEADS * DIM)):
            shapes[f"{layer}.self_attn.{name}_proj.bias"] = (width,)
    if embedding:
        shapes["embed_tokens.weight"] = (VOCAB, HIDDEN)
    generator = torch.Generator().manual_seed(seed)
    tensors = {name: torch.randn(shape, generator=generator).double() * 0.3 for name, shape in shapes.items()}
    if trimmed:
        tensors["d2t"] = torch.tensor([token - row for row, token in enumerate(KEPT)])
        tensors["t2d"] = torch.tensor([token in KEPT for token in range(VOCAB)])
    return tensors


def write(directory, layout, tensors, **special):
    """A checkpoint in exactly the published form."""
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


def published_step(tensors, layout, embedded, features, norm_first):
    """Outputs before the final norm `[T, E]`, and logits over the draft's vocabulary, of a causal sequence: the
    published equations, from the tensors as they were written."""
    weight = {name.removeprefix(f"{LAYER[layout]}."): tensor for name, tensor in tensors.items()}
    feature = normed(features, weight["hidden_norm.weight"])
    x = torch.cat([normed(embedded, weight["input_layernorm.weight"]), feature], -1)

    def heads(name):
        out = linear(x, weight[f"self_attn.{name}_proj.weight"], weight.get(f"self_attn.{name}_proj.bias"))
        return out.view(len(x), -1, DIM).transpose(0, 1)

    angles = torch.arange(len(x)).double()[:, None] * 10_000.0 ** (-torch.arange(0, DIM, 2).double() / DIM)
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()

    def rotated(h):
        return h * cos + torch.cat([-h[..., DIM // 2 :], h[..., : DIM // 2]], -1) * sin

    keys, values = (each.repeat_interleave(HEADS // KV_HEADS, 0) for each in (rotated(heads("k")), heads("v")))
    attended = scaled_dot_product_attention(rotated(heads("q")), keys, values, is_causal=True)
    out = feature if norm_first else features
    out = out + linear(attended.transpose(0, 1).reshape(len(x), -1), weight["self_attn.o_proj.weight"])
    inner = normed(out, weight["post_attention_layernorm.weight"])
    gated = silu(linear(inner, weight["mlp.gate_proj.weight"])) * linear(inner, weight["mlp.up_proj.weight"])
    out = out + linear(gated, weight["mlp.down_proj.weight"])
    return out, linear(normed(out, weight["norm.weight"]), weight["lm_head.weight"])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("made", "special"),
    [({}, {}), ({"bias": True}, {"norm_before_residual": True}), ({"trimmed": False, "embedding": True}, {})],
    ids=["plain", "biases, norm first", "whole vocabulary, own embedding"],
)
def test_a_published_checkpoint_computes_what_it_did_for_its_authors(tmp_path, layout, made, special):
    """Fused states of six tokens, then two rows on the draft's own output."""
    tensors = tensors_of(layout, **made)
    folder = write(tmp_path / "draft", layout, tensors, **special)
    assert read_draft_kind(folder).name == "eagle3"
    draft, kept = load_eagle3(folder)
    draft, fuse = draft.double(), load_fuse(folder).double()
    assert (None if kept is None else kept.tolist()) == (KEPT if made.get("trimmed", True) else None)
    generator = torch.Generator().manual_seed(4)
    states, embedded = torch.randn(6, 3 * HIDDEN, generator=generator), torch.randn(8, HIDDEN, generator=generator)
    states, embedded = states.double(), embedded.double()
    if draft.embedding is not None:
        embedded = draft.embedding(torch.arange(3, 11))
        torch.testing.assert_close(embedded, tensors["embed_tokens.weight"][3:11], atol=1e-6, rtol=1e-6)
    features = fuse(states)
    expected = linear(states, tensors["fc.weight"], tensors.get("fc.bias"))
    for length in (6, 7, 8):
        torch.testing.assert_close(features, expected, atol=1e-4, rtol=1e-4)
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        entered = draft.enter(embedded[None, :length], features[None])
        out = draft(entered, torch.arange(length)[None], masked_attention(causal))[0]
        norm_first = special.get("norm_before_residual", False)
        wanted, logits = published_step(tensors, layout, embedded[:length], expected, norm_first)
        torch.testing.assert_close(out, wanted, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(draft.logits(out), logits, atol=1e-4, rtol=1e-4)
        features, expected = torch.cat([features, out[-1:]]), torch.cat([expected, wanted[-1:]])


def ours(kept=None, **special):
    torch.manual_seed(0)
    shape = LayerShape(HIDDEN, 4, 2, 8, 40, 5e5, 1e-6, input_norm=False)
    draft = Eagle3Draft(Eagle3Config(shape, VOCAB, VOCAB if kept is None else len(kept), **special))
    return draft, torch.nn.Linear(3 * HIDDEN, HIDDEN, bias=False)


@pytest.mark.parametrize("kept", [None, torch.tensor(KEPT)])
def test_a_draft_of_ours_is_read_as_it_was_written(tmp_path, kept):
    draft, fuse = ours(kept, norm_first=True)
    save_eagle3(tmp_path, "f" * 64, draft, fuse, (1, 2, 4), kept)
    assert read_draft_kind(tmp_path).name == "eagle3"
    read, tokens = load_eagle3(tmp_path)
    assert read.config == draft.config
    assert tokens is None if kept is None else torch.equal(tokens, kept)
    for name, tensor in draft.state_dict().items():
        assert torch.equal(read.state_dict()[name], tensor)
    assert torch.equal(load_fuse(tmp_path).weight, fuse.weight)
    assert not any(parameter.requires_grad for parameter in (*read.parameters(), *load_fuse(tmp_path).parameters()))
    assert read_taps(tmp_path, 4) == (1, 2, 4)


def test_what_fuses_stays_on_the_server_and_the_rest_is_as_published(tmp_path):
    kept = torch.tensor(KEPT)
    draft, fuse = ours(kept)
    save_eagle3(tmp_path / "ours", "f" * 64, draft, fuse, (1, 2, 4), kept)
    client, server = (load_file(tmp_path / "ours" / name) for name in ("model.safetensors", "exporter.safetensors"))
    assert set(server) == {"fc.weight"}
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    published = {key: value for key, value in config.items() if key not in ("outrider_draft", "target_fingerprint")}
    folder = write(tmp_path / "published", "authors", {**client, **server}, **published)
    assert set(client | server) == set(tensors_of("authors"))
    read, tokens = load_eagle3(folder)
    assert read.config == draft.config
    assert tokens.tolist() == KEPT


def target_of(**sizes):
    usual = {"hidden_size": HIDDEN, "vocab_size": VOCAB, "num_hidden_layers": 8}
    return PreTrainedConfig(**usual | {"num_attention_heads": 4, "num_key_value_heads": 2} | sizes)


TARGET = target_of()


def test_taps_are_numbered_as_in_vllm_or_under_eagle_config_as_in_sglang(tmp_path):
    tensors = tensors_of("authors")
    for place, (special, taps) in enumerate(
        (
            ({}, (2, 4, 5)),
            ({"eagle_aux_hidden_state_layer_ids": [1, 3, 8]}, (1, 3, 8)),
            ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 6]}}, (2, 4, 7)),
        )
    ):
        folder = write(tmp_path / str(place), "authors", tensors, **special)
        assert read_taps(folder, 8) == taps
        check_sizes(folder, read_facts(folder), TARGET)


def test_a_shallow_target_has_three_layers_to_read_too():
    assert default_taps(32) == (2, 16, 29)
    for layers in range(1, 12):
        taps = default_taps(layers)
        assert len(taps) == 3
        assert all(0 <= tap < layers for tap in taps)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_own_embedding_may_be_narrower_than_the_targets_hidden_states(tmp_path, layout):
    tensors = tensors_of(layout, embedding=True, target_hidden=48)
    folder = write(tmp_path / "draft", layout, tensors, target_hidden_size=48)
    check_sizes(folder, read_facts(folder), target_of(hidden_size=48))
    with pytest.raises(CheckpointError, match=r"another target \(hidden size 48, this one's is 32\)"):
        check_sizes(folder, read_facts(folder), TARGET)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("change", "special", "message"),
    [
        ({"norm.weight": None, "lm_head.bias": torch.zeros(7)}, {}, "holds 'lm_head.bias'"),
        ({"norm.weight": None, "fc.weight": None}, {}, "lacks 'fc.weight', 'norm.weight'; fetch"),
        ({"d2t": torch.zeros(7, dtype=torch.long)}, {}, "contradict each other"),
        ({"d2t": torch.arange(7) - 9, "t2d": None}, {}, "does not lead from its head to tokens"),
        ({"d2t": torch.zeros(6, dtype=torch.long), "t2d": None}, {}, "does not lead from its head to tokens"),
        ({"fc.weight": torch.zeros(HIDDEN, 2 * HIDDEN)}, {}, "fuse no hidden states of 3 layers"),
        ({"fc.weight": torch.zeros(2 * HIDDEN, 3 * HIDDEN)}, {}, "do not fit its config.json"),
        ({"fc.weight": torch.zeros(HIDDEN, 6 * HIDDEN)}, {}, "do not fit its config.json"),
        ({"norm.weight": torch.zeros(HIDDEN + 1)}, {}, "do not fit its config.json"),
        ({"embed_tokens.weight": torch.zeros(VOCAB + 1, HIDDEN)}, {}, "not of 60 tokens"),
        ({}, {"eagle_aux_hidden_state_layer_ids": [1, 2]}, "does not read 3 layers"),
        ({}, {"eagle_aux_hidden_state_layer_ids": [1, 2, 9]}, "it reads layer 9, and this one has 8"),
        ({}, {"eagle_aux_hidden_state_layer_ids": [1, 2, "x"]}, "has broken 'eagle_aux_hidden_state_layer_ids'"),
    ],
)
def test_what_is_incomplete_or_contradicts_itself_is_refused_in_one_sentence(
    tmp_path, layout, change, special, message
):
    tensors = tensors_of(layout) | change
    folder = write(
        tmp_path / "draft", layout, {name: each for name, each in tensors.items() if each is not None}, **special
    )
    with pytest.raises(CheckpointError, match=message):
        check_sizes(folder, read_facts(folder), TARGET)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden_size": 64}, r"another target \(hidden size 32, this one's is 64\)"),
        ({"vocab_size": 61}, r"another target \(vocabulary 60, this one's is 61\)"),
    ],
)
def test_a_draft_for_a_target_of_other_sizes_is_refused(tmp_path, sizes, message):
    folder = write(tmp_path / "draft", "authors", tensors_of("authors"))
    with pytest.raises(CheckpointError, match=message):
        check_sizes(folder, read_facts(folder), target_of(**sizes))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_configuration_that_lacks_sizes_is_refused(tmp_path, layout):
    folder = write(tmp_path / "draft", layout, tensors_of(layout))
    config = json.loads((folder / "config.json").read_text())
    for key, message in (("hidden_size", "lacks the sizes"), ("vocab_size", "lacks the vocabulary's size")):
        sizes = config.get("transformer_layer_config", config)
        kept = {name: value for name, value in sizes.items() if name != key}
        changed = config | {"transformer_layer_config": kept} if sizes is not config else kept
        (folder / "config.json").write_text(json.dumps(changed))
        with pytest.raises(CheckpointError, match=message):
            load_eagle3(folder)
