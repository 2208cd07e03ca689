"""Calibration asks of every head at every place of an answer whether the token of each rank came."""

import torch

from common.draft_models.medusa import RANKS, MedusaConfig, MedusaDraft
from common.models.packed import PackedModel
from tests.training.draft_models.rehearsal import random_target
from training.draft_models.calibration import measure_accuracies

SAMPLES = [([11, 45, 7, 201, 99, 45, 7, 3, 8], 3), ([5, 6, 7, 8, 9, 10], 5)]


@torch.no_grad()
def test_accuracies_are_the_shares_of_places_at_which_a_rank_came_true(tmp_path):
    target = random_target(tmp_path)
    draft = MedusaDraft(MedusaConfig(48, 300, ((0.5,),) * 2))
    for parameter in draft.parameters():
        torch.nn.init.normal_(parameter)
    # Heads that know the first answer in part, so that there is something to count.
    hidden = target.model.model(torch.tensor([SAMPLES[0][0]])).last_hidden_state[0]
    draft.heads[0].weight[99] += 10 * draft.trunks[0](hidden)[2]
    draft.heads[1].weight[45] += 10 * draft.trunks[1](hidden)[2]
    expected = torch.zeros(2, RANKS, dtype=torch.float64)
    counts = [0, 0]
    for tokens, prompt in SAMPLES:
        states = target.model.model(torch.tensor([tokens])).last_hidden_state[0]
        for index in range(2):
            for position in range(prompt - 1, len(tokens) - 2 - index):
                counts[index] += 1
                order = draft.logits(index, states[position], target.head).argsort(descending=True)[:RANKS].tolist()
                if tokens[position + 2 + index] in order:
                    expected[index, order.index(tokens[position + 2 + index])] += 1
    assert counts == [5, 4]
    found = measure_accuracies(PackedModel(target.model, 64), target.head, draft, SAMPLES)
    torch.testing.assert_close(found, expected / torch.tensor(counts)[:, None])
    too_short = ([5, 6], 1)
    assert torch.equal(
        measure_accuracies(PackedModel(target.model, 64), target.head, draft, [*SAMPLES, too_short]), found
    )
    assert found[0, 0] >= 1 / 5
    assert found[1, 0] >= 1 / 4
