"""EAGLE-3 drafts on disk: ours, as their authors publish them, and in the layout of speculators."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedConfig

from common.draft_models.directory import check_sizes, read_draft_kind
from common.draft_models.eagle3 import (
    Eagle3Config,
    Eagle3Draft,
    Eagle3Fuse,
    default_taps,
    load_eagle3,
    load_fuse,
    read_facts,
    read_taps,
    save_eagle3,
)
from common.draft_models.layers import LayerShape, masked_attention
from common.models.errors import CheckpointError
from common.models.rope import RopeScaling
from tests.common.draft_models.published_eagle3 import (
    HIDDEN,
    KEPT,
    LAYOUTS,
    VOCAB,
    published_fusion,
    published_step,
    tensors_of,
    write,
)
from tests.sharded import shard

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
SLIDING = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 3, "num_hidden_layers": 2}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("made", "of_layers", "special"),
    [
        ({}, {}, {}),
        ({"bias": True}, {}, {"norm_before_residual": True}),
        ({"trimmed": False, "embedding": True}, {}, {}),
        ({"head_norms": True}, {"rope_scaling": LLAMA3}, {}),
        ({}, {"rope_scaling": {"rope_type": "linear", "factor": 3.0}}, {}),
        ({}, {"rope_scaling": YARN}, {}),
        ({"layers": 2, "head_norms": True, "bias": True}, SLIDING, {}),
        ({"layers": 3}, {"num_hidden_layers": 3, "rope_scaling": YARN}, {}),
        ({"trimmed": False, "head": False}, {}, {"draft_vocab_size": None}),
        ({"norm_all": True}, {}, {"norm_before_fc": True, "norm_output": True, "norm_before_residual": True}),
        ({"norm_each": True}, {}, {"eagle_config": {"fc_norm": True, "norm_output": True}}),
    ],
    ids=[
        "plain",
        "biases, norm first",
        "whole vocabulary, own embedding",
        "norms of heads, llama3",
        "linear",
        "yarn",
        "two layers, one sliding",
        "three layers",
        "the target's head",
        "one norm before fusing, normed output",
        "a norm for each tap, normed output",
    ],
)
@pytest.mark.parametrize("sharded", [False, True], ids=["one file", "shards"])
def test_a_published_checkpoint_computes_what_it_did_for_its_authors(
    tmp_path, layout, made, of_layers, special, sharded
):
    """Fused states of six tokens, then two rows on the draft's own output."""
    tensors = tensors_of(layout, **made)
    folder = write(tmp_path / "draft", layout, tensors, of_layers, **special)
    if sharded:
        shard(folder)
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
    features, expected = fuse(states), published_fusion(tensors, states)
    head = torch.nn.Linear(HIDDEN, VOCAB, bias=False).double()
    for length in (6, 7, 8):
        torch.testing.assert_close(features, expected, atol=1e-4, rtol=1e-4)
        distance = torch.arange(length)[:, None] - torch.arange(length)[None]
        seen = [(distance >= 0) & (distance < (shape.sliding_window or length)) for shape in draft.config.layers]
        entered = draft.enter(embedded[None, :length], features[None])
        out = draft(entered, torch.arange(length)[None], *map(masked_attention, seen))[0]
        wanted, logits = published_step(tensors, layout, embedded[:length], expected, special, of_layers, head.weight)
        torch.testing.assert_close(out, wanted, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(draft.logits(out, head), logits, atol=1e-4, rtol=1e-4)
        features, expected = torch.cat([features, out[-1:]]), torch.cat([expected, wanted[-1:]])


def ours(kept=None, shape=None, **special):
    torch.manual_seed(0)
    shape = shape or LayerShape(HIDDEN, 4, 2, 8, 40, 5e5, 1e-6, input_norm=False)
    draft = Eagle3Draft(Eagle3Config(shape, VOCAB, VOCAB if kept is None else len(kept), **special))
    return draft, Eagle3Fuse(3 * HIDDEN, HIDDEN)


def test_what_an_older_draft_of_ours_does_not_say_is_as_it_was_then(tmp_path):
    draft, fuse = ours()
    save_eagle3(tmp_path, "f" * 64, draft, fuse, (1, 2, 4))
    config = json.loads((tmp_path / "config.json").read_text())
    for later in ("rope_scaling", "sliding_window", "layer_types", "norm_output"):
        del config[later]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_eagle3(tmp_path)[0].config == draft.config


def all_variants():
    scaling = RopeScaling("yarn", 4.0, 64, mscale=0.7)
    first = LayerShape(HIDDEN, 4, 2, 8, 40, 5e5, 1e-6, input_norm=False, head_norms=True, rope_scaling=scaling)
    return {"shape": first, "norm_output": True, "further": (replace(first, input_norm=True, sliding_window=7),)}


@pytest.mark.parametrize("variants", [{}, all_variants()], ids=["plain", "all variants"])
@pytest.mark.parametrize("kept", [None, torch.tensor(KEPT)])
def test_a_draft_of_ours_is_read_as_it_was_written(tmp_path, kept, variants):
    draft, fuse = ours(kept, norm_first=True, **variants)
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
    for index, (special, taps) in enumerate(
        (
            ({}, (2, 4, 5)),
            ({"eagle_aux_hidden_state_layer_ids": [1, 3, 8]}, (1, 3, 8)),
            ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 6]}}, (2, 4, 7)),
        )
    ):
        folder = write(tmp_path / str(index), "authors", tensors, **special)
        assert read_taps(folder, 8) == taps
        check_sizes(folder, read_facts(folder), TARGET)


def test_a_draft_without_a_head_is_read_as_it_was_written(tmp_path):
    draft, fuse = ours(own_head=False)
    save_eagle3(tmp_path, "f" * 64, draft, fuse, (1, 2, 4))
    read, tokens = load_eagle3(tmp_path)
    assert read.config == draft.config
    assert tokens is None
    assert read_facts(tmp_path).vocabulary == VOCAB


def test_a_draft_without_a_head_is_as_wide_as_its_target(tmp_path):
    """An embedding of its own is not enough."""
    tensors = tensors_of("authors", embedding=True, trimmed=False, head=False, target_hidden=48)
    folder = write(tmp_path / "draft", "authors", tensors)
    with pytest.raises(CheckpointError, match=r"do not fit its config\.json"):
        read_facts(folder)


def test_a_head_that_is_tied_to_an_own_embedding_is_refused(tmp_path):
    """The target's head would be taken in its place."""
    tied = {"tie_word_embeddings": True}
    tensors = tensors_of("authors", embedding=True, trimmed=False, head=False)
    with pytest.raises(CheckpointError, match=r"ties its head to an embedding of its own .* save it with an lm_head"):
        load_eagle3(write(tmp_path / "tied", "authors", tensors, **tied))
    for name, made in {"the target's": {"head": False}, "own": {"embedding": True}}.items():
        draft, _ = load_eagle3(write(tmp_path / name, "authors", tensors_of("authors", trimmed=False, **made), **tied))
        assert (draft.head is None) == (name == "the target's")


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
        ({"lm_head.weight": None}, {}, "names the tokens of a head of its own, but lacks it"),
        ({"norm.weight": None, "lm_head.bias": torch.zeros(7)}, {}, "holds 'lm_head.bias'"),
        ({"norm.weight": None, "fc.weight": None}, {}, "lacks 'fc.weight', 'norm.weight'; fetch"),
        (
            {"layers.2.self_attn.q_proj.weight": torch.zeros(4)},
            {},
            r"lacks 'layers\.1\.self_attn.*' and \d+ more; fetch",
        ),
        ({"fc_norm.1.weight": torch.zeros(HIDDEN)}, {}, "do not fit its config.json"),
        ({"d2t": torch.zeros(7, dtype=torch.long)}, {}, "contradict each other"),
        ({"d2t": torch.arange(7) - 9, "t2d": None}, {}, "does not lead from its head to tokens"),
        ({"d2t": torch.zeros(6, dtype=torch.long), "t2d": None}, {}, "does not lead from its head to tokens"),
        ({"d2t": -torch.arange(7), "t2d": None}, {}, "does not lead from its head to tokens"),
        ({"fc.weight": torch.zeros(HIDDEN, 2 * HIDDEN)}, {}, "fuse no hidden states of 3 layers"),
        ({"fc.weight": torch.zeros(2 * HIDDEN, 3 * HIDDEN)}, {}, "do not fit its config.json"),
        ({"fc.weight": torch.zeros(HIDDEN, 6 * HIDDEN)}, {}, "do not fit its config.json"),
        ({"norm.weight": torch.zeros(HIDDEN + 1)}, {}, "do not fit its config.json"),
        ({"embed_tokens.weight": torch.zeros(VOCAB + 1, HIDDEN)}, {}, "not of 60 tokens"),
        (
            {"lm_head.weight": None, "d2t": None, "t2d": None, "fc.weight": torch.zeros(HIDDEN, 6 * HIDDEN)},
            {},
            "do not fit its config.json",
        ),
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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("of_layers", [{}, {"rope_parameters": {"rope_type": "default"}}], ids=["top", "parameters"])
def test_a_draft_that_turns_a_part_of_each_head_is_refused_by_the_settings_name(tmp_path, layout, of_layers):
    part = {"partial_rotary_factor": 0.5}
    of_layers = {key: value | part for key, value in of_layers.items()} or part
    folder = write(tmp_path / "draft", layout, tensors_of(layout), of_layers)
    with pytest.raises(CheckpointError, match=r"a part of each head \(partial_rotary_factor\)"):
        load_eagle3(folder)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_setting_that_changes_what_is_computed_is_refused_by_its_name(tmp_path, layout):
    tensors = tensors_of(layout)
    usual = {"logit_scale": 1.0, "is_causal": True, "eagle_config": {"use_last_layernorm": True}}
    load_eagle3(write(tmp_path / "usual", layout, tensors, usual, **usual))
    for place, special in enumerate(
        (
            {"of_layers": {"residual_multiplier": 0.2}},
            {"of_layers": {"scale_depth": 1.4}},
            {"logit_scale": 0.0625},
            {"is_causal": False},
            {"eagle_config": {"use_last_layernorm": False}},
            {"eagle_config": {"use_mtp_layernorm": True}},
        )
    ):
        ((name, value),) = next((each for each in special.values() if isinstance(each, dict)), special).items()
        folder = write(tmp_path / str(place), layout, tensors, **special)
        with pytest.raises(CheckpointError, match=f"has a '{name}' of {value}, which is not computed here"):
            load_eagle3(folder)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("part", "name"), [("embedding", "scale_emb"), ("head", "final_logit_softcapping")])
def test_how_a_target_scales_what_the_draft_uses_of_it_is_no_setting_of_the_draft(tmp_path, layout, part, name):
    settings = {name: 30.0}
    without = tensors_of(layout, trimmed=False, **{part: False})
    load_eagle3(write(tmp_path / "without", layout, without, settings, **settings))
    folder = write(tmp_path / "with", layout, tensors_of(layout, trimmed=False, **{part: True}), settings, **settings)
    with pytest.raises(CheckpointError, match=f"has a '{name}' of 30.0, which is not computed here"):
        load_eagle3(folder)


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
