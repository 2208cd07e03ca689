"""A draft can be trained for a target whose weights stay in few bits."""

from dataclasses import replace

import torch

from common.draft_models.moa import MoaDraft
from common.models.checkpoint import load_causal_lm
from tests.families import make_checkpoint
from training.draft_models.features import load_target
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
