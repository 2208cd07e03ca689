"""Layers that depend on those before them, by their number or by how many there are, make no tail."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import GPT2Config, LlamaConfig

from common.draft_models.tail import load_tail, write_tail
from common.draft_models.tail_layers import check_same_layers
from common.models.errors import CheckpointError
from common.models.parts import layers_of
from netem.experiments.family_checkpoints import FAMILIES, LAYERS, make_family_checkpoint
from tests.other_families import DIFF_LLAMA, MINICPM_3
from tests.quantised import make_fp8

SCALED = replace(FAMILIES["gpt2"], options={"scale_attn_by_inverse_layer_idx": True})
TARGET = Path("the-target")


@pytest.mark.parametrize("layers", [1, LAYERS - 1])
@pytest.mark.parametrize(
    ("family", "differs"),
    [(SCALED, "attn.scaling"), (DIFF_LLAMA, "self_attn.lambda_init"), (MINICPM_3, "residual_scale")],
    ids=lambda row: getattr(row, "name", None),
)
def test_layers_that_depend_on_those_before_them_make_no_tail(family, differs, layers, tmp_path):
    target = make_family_checkpoint(tmp_path / "target", family)
    with pytest.raises(CheckpointError, match=rf"last {layers} layers of the target in {target} .* {differs} depends"):
        write_tail(target, layers, tmp_path / "tail")
    assert not (tmp_path / "tail").exists()


@pytest.mark.parametrize("layers", [0, LAYERS])
def test_without_layers_or_with_all_of_them_nothing_depends_on_others(layers, tmp_path):
    write_tail(make_family_checkpoint(tmp_path / "target", SCALED), layers, tmp_path / "tail")
    assert len(layers_of(load_tail(tmp_path / "tail", layers, "cpu", "float32"))) == layers


def test_a_quantised_targets_layers_are_compared_as_plain_ones(tmp_path):
    stored = make_fp8(tmp_path / "stored", make_family_checkpoint(tmp_path / "target", MINICPM_3))
    with pytest.raises(CheckpointError, match="their residual_scale depends"):
        write_tail(stored, 2, tmp_path / "tail")


def test_layers_that_make_no_model_are_refused():
    whole = {"n_embd": 48, "n_head": 6, "vocab_size": 300, "n_layer": 3}
    with pytest.raises(CheckpointError, match=r"the-target make no model of their own \(.*divisible by num_heads"):
        check_same_layers(TARGET, GPT2Config, whole, whole | {"n_layer": 2, "n_head": 5})


def test_comparing_leaves_the_configurations_as_they_are():
    whole = {"num_hidden_layers": 2, "vocab_size": 300, "rope_scaling": {"type": "linear", "factor": 2.0}}
    tail = whole | {"num_hidden_layers": 1}
    before = deepcopy((whole, tail))
    check_same_layers(TARGET, LlamaConfig, whole, tail)
    assert (whole, tail) == before
