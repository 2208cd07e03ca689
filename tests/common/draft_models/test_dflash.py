"""A DFlash draft is read as its authors publish it, and refused, with a sentence, where it is not one."""

import pytest
import torch

from common.draft_models.dflash import (
    DflashConfig,
    DflashDraft,
    load_dflash,
    load_fuse,
    make_fuse,
    read_facts,
    read_taps,
)
from common.draft_models.dflash import save_dflash as save
from common.draft_models.directory import read_draft_kind
from common.draft_models.layers import LayerShape
from common.models.errors import CheckpointError
from tests.common.draft_models import published_dflash

HIDDEN, VOCABULARY = 24, 50


def test_a_published_directory_says_what_it_is(tmp_path):
    draft = published_dflash.write(tmp_path, HIDDEN, VOCABULARY)
    facts = read_facts(draft)
    assert read_draft_kind(draft).name == "dflash"
    assert (facts.hidden, facts.vocabulary, facts.least_layers, facts.depths) == (HIDDEN, VOCABULARY, 3, (0,))
    # A published number is that of the layer which the hidden states leave.
    assert read_taps(draft, 4) == (1, 3)


def test_the_targets_layers_may_be_named_at_the_top(tmp_path):
    changes = {"dflash_config": {"mask_token_id": 5}, "target_layer_ids": [1, 2]}
    assert read_taps(published_dflash.write(tmp_path, HIDDEN, VOCABULARY, **changes), 4) == (2, 3)


@pytest.mark.parametrize("at_top", [False, True])
@pytest.mark.parametrize(
    ("name", "default", "other"),
    [
        ("is_causal", False, True),
        ("input_embedding_scale", 1.0, 7.0),
        ("output_multiplier", 1, 0.5),
        ("final_logit_softcapping", None, 20.0),
        ("final_logit_softcapping", 0, 20.0),
        ("logit_scale", 1.0, 0.0625),
    ],
)
def test_a_setting_that_changes_what_is_computed_is_refused_by_its_name(tmp_path, name, default, other, at_top):
    own = {"mask_token_id": 5, "target_layer_ids": [0, 2]}
    for value in (default, other):
        changes = {name: value, "dflash_config": own} if at_top else {"dflash_config": own | {name: value}}
        draft = published_dflash.write(tmp_path, HIDDEN, VOCABULARY, **changes)
        if value == default:
            read_facts(draft)
    with pytest.raises(CheckpointError, match=f"has a '{name}' of {other}, which is not computed here"):
        read_facts(draft)


def test_what_is_saved_is_read_again_with_the_servers_half_apart(tmp_path):
    shape = LayerShape(HIDDEN, heads=2, kv_heads=1, head_dim=8, intermediate=16, head_norms=True)
    config = DflashConfig(shape, 3, 8, 0, (2, 4), VOCABULARY)
    draft, fuse = DflashDraft(config), make_fuse(config)
    save(tmp_path, "a fingerprint", draft, fuse)
    loaded = load_dflash(tmp_path)
    assert loaded.config == config
    for ours, theirs in ((loaded, draft), (load_fuse(tmp_path), fuse)):
        kept = ours.state_dict()
        assert all(torch.equal(kept[name], each) for name, each in theirs.state_dict().items())
    (tmp_path / "exporter.safetensors").unlink()  # as in a bundle
    assert load_dflash(tmp_path).config == config


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dflash_config": {"mask_token_id": 5}}, "lacks the block's length"),
        ({"dflash_config": {"mask_token_id": VOCABULARY, "target_layer_ids": [0, 2]}}, "lacks the block's length"),
        ({"dflash_config": {"mask_token_id": 5, "target_layer_ids": [2, 2]}}, "lacks the block's length"),
        ({"dflash_config": {"mask_token_id": 5, "target_layer_ids": [0]}}, "do not fit its config.json"),
        ({"block_size": 1}, "lacks the block's length"),
        ({"layer_types": ["sliding_attention"] * 2, "sliding_window": 8, "use_sliding_window": True}, "a window only"),
        ({"num_hidden_layers": 3}, "lacks 'layers.2"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(tmp_path, changes, said):
    draft = published_dflash.write(tmp_path, HIDDEN, VOCABULARY, **changes)
    with pytest.raises(CheckpointError, match=said.replace(".", r"\.")):
        read_facts(draft)


def test_tensors_of_another_design_are_named(tmp_path):
    held = published_dflash.tensors(HIDDEN) | {"layers.0.attn_conv.weight": torch.zeros(1)}
    draft = published_dflash.write(tmp_path, HIDDEN, VOCABULARY, held)
    with pytest.raises(CheckpointError, match=r"holds 'layers\.0\.attn_conv\.weight', which that has not"):
        load_dflash(draft)


def test_a_target_with_too_few_layers_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="it reads layer 3, and this one has 2"):
        read_taps(published_dflash.write(tmp_path, HIDDEN, VOCABULARY), 2)
