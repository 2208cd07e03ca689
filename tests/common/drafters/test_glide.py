"""The glide drafter computes the published layer over trees, with whatever keys and values have arrived."""

import pytest
import torch
from transformers import DynamicCache

from common.draft_models.exporters import LastKeyValuesExporter
from common.draft_models.glide import GlideConfig, GlideDraft
from common.draft_models.layers import LayerShape
from common.drafters.glide import GlideNetwork
from common.models.parts import head_of
from tests.common.drafters.crossing import CONTEXT, HELD, PATHS, REQUEST, SPARE, TOKENS, Scene, shaken
from tests.plain_layers import attended, heads, rms, swiglu, turned


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return Scene(tmp_path_factory.mktemp("glide"))


def draft_for(scene, layers):
    sizes = scene.target.config
    shape = LayerShape(sizes.hidden_size, sizes.num_attention_heads, sizes.num_key_value_heads, sizes.head_dim, 48)
    return shaken(GlideDraft(GlideConfig(shape, layers)))


def stated(scene, draft, path, held):
    """Log-probabilities behind `TOKENS` and `path`, from the equations."""
    shape, weights = draft.config.layer, draft.state_dict()
    sequence = torch.tensor([*TOKENS, *path])
    at, known = torch.arange(len(sequence)), torch.tensor(sorted(held), dtype=torch.long)
    last = scene.target(torch.tensor([TOKENS]), past_key_values=DynamicCache()).past_key_values.layers[-1]
    theirs = [each[0].transpose(0, 1)[known].half().double() for each in (last.keys, last.values)]
    x = scene.target.get_input_embeddings()(sequence)
    for number in range(draft.config.layers):
        own, cross = (
            {name.removeprefix(f"layers.{number}.{part}."): each for name, each in weights.items()}
            for part in ("own", "cross")
        )
        normed = rms(x, own["input_norm.weight"], shape.epsilon)
        queries, keys, values = (heads(normed, own[f"{name}_proj.weight"], shape.head_dim) for name in "qkv")
        queries, keys = turned(queries, at, shape.rope_base), turned(keys, at, shape.rope_base)
        x = x + attended(queries, keys, values, at[:, None] >= at[None]) @ own["o_proj.weight"].T
        queries = heads(rms(x, cross["input_norm.weight"], shape.epsilon), cross["q_proj.weight"], shape.head_dim)
        everything = torch.ones(len(at), len(known), dtype=torch.bool)
        x = x + attended(turned(queries, at, shape.rope_base), *theirs, everything) @ cross["o_proj.weight"].T
        normed = rms(x, own["post_norm.weight"], shape.epsilon)
        x = x + swiglu(normed, *(own[f"{name}_proj.weight"] for name in ("gate", "up", "down")))
    out = rms(x[-1], weights["norm.weight"], shape.epsilon)
    return torch.log_softmax(scene.target.lm_head(out), -1)


@torch.no_grad()
@pytest.mark.parametrize("held", HELD.values(), ids=list(HELD))
def test_a_tree_is_computed_from_what_has_arrived(scene, held):
    draft = draft_for(scene, layers=1)
    network = GlideNetwork(draft, scene.tail, head_of(scene.tail), REQUEST, CONTEXT, SPARE)
    exporter = LastKeyValuesExporter(draft.config.layer.kv_heads * draft.config.layer.head_dim)
    found = scene.logits(network, scene.frames(exporter, held))
    for path in PATHS.values():
        ours = next(each for seen, each in found.items() if list(seen[-len(path) - 1 :]) == [TOKENS[-1], *path])
        torch.testing.assert_close(ours, stated(scene, draft, path, held), rtol=1e-6, atol=1e-8)


@torch.no_grad()
def test_layers_follow_each_other(scene):
    draft = draft_for(scene, layers=2)
    network = GlideNetwork(draft, scene.tail, head_of(scene.tail), REQUEST, CONTEXT, SPARE)
    found = scene.logits(network, ())
    ours = next(each for seen, each in found.items() if list(seen[-2:]) == [TOKENS[-1], 61])
    torch.testing.assert_close(ours, stated(scene, draft, [61], []), rtol=1e-6, atol=1e-8)
