"""Hydra's heads on disk, ours and published: what is read computes what its authors' equations say."""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import linear, silu
from transformers import LlamaConfig, LlamaModel

from common.draft_models.directory import DraftFacts, read_draft_kind
from common.draft_models.hydra import load_hydra, read_facts
from common.draft_models.layers import full_attention, masked_attention
from common.models.errors import CheckpointError
from tests.drafts import make_hydra_draft
from tests.families import make_checkpoint

WIDTH, VOCAB, HEADS = 256, 20, 2


def write_published(directory, *, plus, blocks=2, heads=HEADS, **settings):
    """Heads as Hydra's authors publish them, `state_dict` names and all; returns the tensors and the layer before
    them, transformers' own."""
    generator = torch.Generator().manual_seed(3)

    def random(*shape):
        return torch.randn(*shape, generator=generator) * 0.1

    tensors, prefix = {"input_embed_fn.weight": random(VOCAB, WIDTH)}, None
    for head in range(heads):
        for block in range(blocks):
            name, read = f"hydra_mlp.{head}.{2 * block + 1 if plus else block}", WIDTH * (1 if block else head + 2)
            parts = ("linear",) if block else ("linear", "res_connection")
            for part in parts:
                tensors[f"{name}.{part}.weight"], tensors[f"{name}.{part}.bias"] = random(WIDTH, read), random(WIDTH)
        last = f"hydra_lm_head.{head}.1" if plus else f"hydra_lm_head.{head}"
        tensors[f"{last}.weight"], tensors[f"{last}.bias"] = random(VOCAB, WIDTH), random(VOCAB)
    if plus:
        sizes = {"hidden_size": WIDTH, "intermediate_size": 96, "vocab_size": VOCAB, "num_hidden_layers": 1}
        torch.manual_seed(0)
        prefix = LlamaModel(LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-6))
        tensors |= {f"prefix_embeding_layer.{name}": tensor for name, tensor in prefix.state_dict().items()}
    directory.mkdir()
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, directory / "model.safetensors")
    config = {
        "hydra_num_heads": heads,
        "hydra_num_layers": blocks,
        "hydra_head_arch": "prefix-mlp" if plus else "mlp",
        "base_model_name_or_path": "some/target",
        "grounded_heads": True,
        "hidden_state_offset": 0,
    }
    (directory / "config.json").write_text(json.dumps(config | settings))
    return tensors, prefix


@torch.no_grad()
@pytest.mark.parametrize("plus", [False, True], ids=["hydra", "hydra++"])
def test_published_heads_compute_what_they_did_for_their_authors(tmp_path, plus):
    tensors, prefix = write_published(tmp_path / "heads", plus=plus)
    assert read_draft_kind(tmp_path / "heads").name == "hydra"
    assert read_facts(tmp_path / "heads") == DraftFacts(hidden=WIDTH, vocabulary=VOCAB)
    draft = load_hydra(tmp_path / "heads")
    hidden = torch.randn(1, 5, WIDTH, generator=torch.Generator().manual_seed(4))
    path = torch.randn(HEADS, 5, WIDTH, generator=torch.Generator().manual_seed(5))
    base, ours = hidden[0], hidden[0]
    if prefix is not None:
        base = prefix(inputs_embeds=hidden).last_hidden_state[0]
        causal = masked_attention(torch.ones(5, 5, dtype=torch.bool).tril())
        ours = draft.prefix(hidden, torch.arange(5)[None], causal)[0]
        torch.testing.assert_close(ours, base, rtol=1e-4, atol=1e-5)
        alone = draft.prefix(hidden[:, :1], torch.zeros(1, 1, dtype=torch.long), full_attention)
        torch.testing.assert_close(alone[0, 0], base[0], rtol=1e-4, atol=1e-5)
    for head in range(HEADS):
        first, second = (f"hydra_mlp.{head}.{2 * block + 1 if plus else block}" for block in range(2))
        last = f"hydra_lm_head.{head}.1" if plus else f"hydra_lm_head.{head}"

        def layer(name, x):
            return linear(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"])

        x = torch.cat([base, *path[: head + 1]], dim=-1)
        x = layer(f"{first}.res_connection", x) + silu(layer(f"{first}.linear", x))
        x = x + silu(layer(f"{second}.linear", x))
        found = draft.logits(ours, path[: head + 1].transpose(0, 1), nn.Identity())
        torch.testing.assert_close(found, layer(last, x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"hidden_state_offset": 1}, "read another layer"),
        ({"grounded_heads": False}, "or not the path"),
        ({"hydra_num_layers": 3}, "lacks 'hydra_mlp"),
        ({"residual_multiplier": 0.2}, "has a 'residual_multiplier' of 0.2, which is not computed here"),
        ({"logit_scale": 0.0625}, "has a 'logit_scale' of 0.0625, which is not computed here"),
        ({"hydra_num_layers": "many"}, "describes no Hydra heads"),
    ],
)
def test_published_heads_of_another_form_are_refused_in_one_sentence(tmp_path, settings, sentence):
    write_published(tmp_path / "heads", plus=True, **settings)
    with pytest.raises(CheckpointError, match=sentence):
        load_hydra(tmp_path / "heads")


def test_how_a_target_scales_its_embedding_is_no_setting_of_heads_that_use_it(tmp_path):
    write_published(tmp_path / "heads", plus=True, embedding_multiplier=12.0)
    load_hydra(tmp_path / "heads")


@pytest.mark.parametrize("plus", [False, True])
def test_heads_are_read_as_they_were_written(tmp_path, plus):
    target = make_checkpoint(tmp_path / "target", "llama")
    made = make_hydra_draft(tmp_path / "draft", target, plus=plus)
    draft = load_hydra(made)
    assert (draft.prefix is not None) == plus
    content = json.loads((made / "config.json").read_text())
    (made / "config.json").write_text(json.dumps(content | {"heads": None}))
    with pytest.raises(CheckpointError, match="describes no Hydra heads"):
        load_hydra(made)
