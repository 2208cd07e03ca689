"""Published layouts: recognised by configuration or by names."""

import json

import pytest
import torch
from safetensors.torch import save_file

from common.draft_models.directory import read_draft_kind
from common.draft_models.layouts import EAGLE, EAGLE3, LAYOUTS, MEDUSA, SPECULATORS_EAGLE, SPECULATORS_EAGLE3, recognise
from common.models.errors import CheckpointError

PLAIN = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}


def directory(folder, config, names, file="model.safetensors"):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if names:
        save_file({name: torch.zeros(2) for name in names}, folder / file)
    return folder


@pytest.mark.parametrize(
    ("config", "names", "layout"),
    [
        (PLAIN, ("midlayer.mlp.up_proj.weight", "fc.weight"), EAGLE3),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, (), EAGLE3),
        ({"speculators_model_type": "eagle3"}, (), SPECULATORS_EAGLE3),
        (PLAIN, ("fc.weight", "layers.0.hidden_norm.weight"), SPECULATORS_EAGLE3),
        ({"speculators_model_type": "eagle"}, ("fc.weight",), SPECULATORS_EAGLE),
        (PLAIN, ("fusion_fc.weight",), SPECULATORS_EAGLE),
        (PLAIN, ("fc.weight", "layers.0.self_attn.q_proj.weight"), EAGLE),
        ({"medusa_num_heads": 3}, (), MEDUSA),
        (PLAIN, ("0.0.linear.weight",), MEDUSA),
        (PLAIN, ("medusa_head.0.0.linear.weight",), MEDUSA),
        (PLAIN, ("model.layers.0.self_attn.q_proj.weight", "lm_head.weight"), None),
        (PLAIN, (), None),
    ],
)
def test_a_layout_is_known_by_its_configuration_or_by_its_names(tmp_path, config, names, layout):
    assert recognise(directory(tmp_path, config, names)) is layout
    assert read_draft_kind(tmp_path).name == ("independent" if layout is None else layout.kind)


def test_no_name_is_in_a_layout_twice():
    for layout in LAYOUTS:
        ours = [*layout.names.values(), *layout.optional.values()]
        assert len(set(ours)) == len(ours)
        assert not layout.unused & {*layout.names, *layout.optional}


def test_another_draft_of_speculators_is_refused_by_its_type(tmp_path):
    with pytest.raises(CheckpointError, match="of type 'hydra'; of these are read: eagle3, eagle"):
        read_draft_kind(directory(tmp_path, {"speculators_model_type": "hydra"}, ("fc.weight",)))
