"""A draft can be trained for a target whose weights are in few bits."""

import json
from dataclasses import replace

import pytest
import torch

from common.draft_models.moa import MoaDraft
from common.drafters.load import DrafterConfig, load_drafter
from common.models.checkpoint import load_causal_lm
from common.models.source import CONFIG, QUANTISATION, read_json
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from tests.families import make_checkpoint
from tests.training.draft_models.rehearsal import random_target
from training.draft_models.features import load_target
from training.draft_models.recipes import independent, medusa
from training.draft_models.recipes.moa_sizes import moa_config, warm_start


def test_a_draft_starts_from_what_a_quantised_layer_computes(tmp_path):
    target = load_target(str(make_checkpoint(tmp_path, "llama", hidden=192)), torch.device("cpu"), "bfloat16")
    quantised = replace(target, model=load_causal_lm(tmp_path, dtype="bfloat16", quantise="int8"))
    drafts = [MoaDraft(moa_config(each, (0,), 1.25, "mixture"), 0) for each in (target, quantised)]
    for draft, each in zip(drafts, (target, quantised), strict=True):
        warm_start(draft, each, 0)
    plain, told = (dict(draft.named_parameters()) for draft in drafts)
    for name in ("sa.q_proj.weight", "sa.v_proj.weight", "ca.o_proj.weight"):
        assert (plain[name] - told[name]).abs().max() < plain[name].abs().max() * 0.02, name


def test_a_target_whose_weights_are_in_few_bits_is_not_trained(tmp_path):
    target = random_target(tmp_path)
    quantised = replace(target, model=load_causal_lm(target.directory, dtype="bfloat16", quantise="int8"))
    with pytest.raises(MisuseError, match=r"^--train-target cannot train target, whose weights are in few bits"):
        medusa.build(quantised, train_target=True)


def test_a_small_model_for_a_quantised_target_is_a_plain_checkpoint(tmp_path):
    target = random_target(tmp_path)
    config = target.directory / CONFIG
    config.write_text(json.dumps(read_json(config) | {QUANTISATION: {"quant_method": "gptq", "bits": 4}}))
    independent.build(target, layers=1).save(tmp_path / "draft")
    assert QUANTISATION not in read_json(tmp_path / "draft" / CONFIG)
    load_drafter("independent", DrafterConfig(tmp_path / "draft", "cpu", "float32", 64, 300, StateRequest("it")))
