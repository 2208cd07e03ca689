"""The draft state of a batch's tokens: each from its own layers, none from padding, which calibrates nothing either."""

import pytest
import torch

from common.draft_models.layers import LayerShape
from common.draft_models.lsa import CodedMixer, LayerMean, LayerMixture
from training.draft_models.mixed_states import mixed_states
from training.draft_models.recipe import Batch, Moment

LAYERS, WIDTH = 2, 4
SHAPE = LayerShape(WIDTH, heads=1, kv_heads=1, head_dim=WIDTH, intermediate=6)
FILLED = torch.tensor([[True] * 4, [True] * 3 + [False]])
BATCH = Batch(torch.zeros(2, 4, dtype=torch.int64), torch.zeros(2, 4, dtype=torch.bool), torch.tensor([4, 3]))
FIRST, LATER = Moment(0, 9), Moment(1, 9)


def key_values() -> torch.Tensor:
    """Padding holds numbers that would spoil any mean."""
    torch.manual_seed(0)
    return (5 + torch.randn(LAYERS, 2, 4, WIDTH)).masked_fill(~FILLED[..., None], 1e6)


def test_a_state_is_made_of_its_tokens_own_layers_and_padding_has_zeros() -> None:
    given = key_values()
    found = mixed_states(LayerMean(LAYERS, SHAPE), BATCH, given, FIRST)
    assert torch.equal(found, given.mean(dim=0).masked_fill(~FILLED[..., None], 0.0))


def test_a_learnt_codec_makes_states_of_its_own_width() -> None:
    mixer, given = CodedMixer(LayerMean(LAYERS, SHAPE), WIDTH, 3), key_values()
    found = mixed_states(mixer, BATCH, given, LATER)
    torch.testing.assert_close(found[FILLED], mixer.encode(given.mean(dim=0)[FILLED]))
    assert found.shape == (2, 4, 3)
    assert not found[1, 3].any()


@pytest.mark.parametrize("coded", [False, True])
def test_the_first_step_standardises_the_channels_of_every_layer_and_no_other_step_does(coded: bool) -> None:
    mixture, given = LayerMixture(LAYERS, SHAPE), key_values()
    mixer = CodedMixer(mixture, WIDTH, 3) if coded else mixture
    mixed_states(mixer, BATCH, given, LATER)
    assert not mixture.is_calibrated
    mixed_states(mixer, BATCH, given, FIRST)
    for layer in range(LAYERS):
        tokens = given[layer][FILLED]
        torch.testing.assert_close(mixture.mean_LW[layer], tokens.mean(dim=0))
        torch.testing.assert_close(mixture.deviation_LW[layer], tokens.std(dim=0))
    before = mixture.mean_LW.clone()
    mixed_states(mixer, BATCH, given + 1, FIRST)
    assert torch.equal(mixture.mean_LW, before)
