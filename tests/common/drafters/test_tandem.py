"""The tandem drafter computes the published layers over trees, with the target's states instead of its own
wherever they have arrived."""

import pytest
import torch

from common.draft_models.exporters import FusedExporter
from common.draft_models.layers import LayerShape
from common.draft_models.tandem import TandemConfig, TandemDraft, make_fuse
from common.drafters.tandem import TandemNetwork
from common.models.parts import head_of
from tests.common.drafters.crossing import CONTEXT, HELD, PATHS, REQUEST, SPARE, TOKENS, Scene, shaken
from tests.plain_layers import attended, heads, rms, swiglu, turned

TAPS = (2, 4)
WIDTH = 16


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return Scene(tmp_path_factory.mktemp("tandem"), TAPS)


@pytest.fixture(scope="module")
def halves(scene):
    sizes = scene.target.config
    layer = LayerShape(sizes.hidden_size, heads=4, kv_heads=2, head_dim=8, intermediate=48)
    config = TandemConfig(layer, 2, TAPS, WIDTH)
    return shaken(TandemDraft(config)), shaken(make_fuse(config))


def stated(scene, draft, fuse, path, held):
    """Log-probabilities behind `TOKENS` and `path`, from the equations."""
    shape, weights = draft.config.layer, draft.state_dict()
    sequence = torch.tensor([*TOKENS, *path])
    at = torch.arange(len(sequence))
    left = []  # what leaves the last layer, before the final norm
    hook = scene.target.model.layers[-1].register_forward_hook(lambda *given: left.append(given[2]))
    entered = scene.target.model(torch.tensor([TOKENS]), output_hidden_states=True).hidden_states
    hook.remove()
    last = left[0] if isinstance(left[0], torch.Tensor) else left[0][0]
    both = torch.cat([entered[TAPS[0]], last], -1)[0]
    states = rms(both @ fuse.weight.T, fuse.out_norm.weight, shape.epsilon).half().double()
    arrived = torch.tensor([position in held for position in range(len(sequence))])[:, None]
    states = torch.cat([states, states.new_zeros(len(path), WIDTH)])
    x = scene.target.get_input_embeddings()(sequence)
    for number in range(2):
        own = {name.removeprefix(f"layers.{number}."): each for name, each in weights.items()}
        queries = heads(rms(x, own["input_norm.weight"], shape.epsilon), own["q_proj.weight"], 8)
        source = torch.where(arrived, states @ weights[f"entries.{number}.weight"].T, x)
        normed = rms(source, own["input_norm.weight"], shape.epsilon)
        keys, values = (heads(normed, own[f"{name}_proj.weight"], 8) for name in "kv")
        queries, keys = turned(queries, at, shape.rope_base), turned(keys, at, shape.rope_base)
        x = x + attended(queries, keys, values, at[:, None] >= at[None]) @ own["o_proj.weight"].T
        normed = rms(x, own["post_norm.weight"], shape.epsilon)
        x = x + swiglu(normed, *(own[f"{name}_proj.weight"] for name in ("gate", "up", "down")))
    out = rms(x[-1], weights["norm.weight"], shape.epsilon)
    return torch.log_softmax(scene.target.lm_head(out), -1)


@torch.no_grad()
@pytest.mark.parametrize("held", HELD.values(), ids=list(HELD))
def test_a_tree_is_computed_from_what_has_arrived(scene, halves, held):
    draft, fuse = halves
    network = TandemNetwork(draft, scene.tail, head_of(scene.tail), REQUEST, CONTEXT, SPARE)
    found = scene.logits(network, scene.frames(FusedExporter(fuse, TAPS), held))
    for path in PATHS.values():
        ours = next(each for seen, each in found.items() if list(seen[-len(path) - 1 :]) == [TOKENS[-1], *path])
        torch.testing.assert_close(ours, stated(scene, draft, fuse, path, held), rtol=1e-6, atol=1e-8)
