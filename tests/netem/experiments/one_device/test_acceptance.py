from math import exp

import numpy as np
import pytest
import torch

from common.drafters.best_first import Expansion
from common.drafters.calibration import NoiseTrust
from common.protocol.messages import Draw
from common.protocol.sampling import Sampling
from common.protocol.views import Proposal, TreeView
from common.sampling.preceding import Preceding, Text
from netem.experiments.one_device.acceptance import OfferOutcomes, OfferRecorder, calibration_error, fit


def outcomes_of(base, slope, count=20_000):
    random = np.random.default_rng(5)
    x = random.normal(size=count)
    hit = random.random(count) < 1 / (1 + np.exp(-(base + slope * x)))
    return list(zip(x.tolist(), hit.tolist(), strict=True))


def test_the_fit_finds_the_curve_that_the_outcomes_were_drawn_from():
    fitted = fit(outcomes_of(-0.7, 1.3))
    assert fitted is not None
    assert (fitted.base, fitted.slope) == (pytest.approx(-0.7, abs=0.1), pytest.approx(1.3, abs=0.1))
    assert fitted.loss < fitted.blind_loss


def test_nothing_is_fitted_to_one_outcome():
    assert fit([(0.1, True), (0.7, True)]) is None


def test_true_probabilities_are_calibrated_and_others_are_not():
    pairs = outcomes_of(-0.7, 1.3)
    said = [-np.log(1 + exp(0.7 - 1.3 * x)) for x, _ in pairs]
    assert calibration_error(pairs, said) < 0.02
    assert calibration_error(pairs, [logp / 3 for logp in said]) > 0.1


def test_only_siblings_that_were_tried_on_the_answers_path_count():
    recorder, outcomes = OfferRecorder(), OfferOutcomes()
    draw = Draw((5, 6, 7), (2, 1, 1))
    recorder._groups[(1, 2)] = [Proposal(0, token, -1.0, draw) for token in (6, 5, 7)]
    recorder._groups[(1, 9)] = [Proposal(0, 5, -1.0, draw)]
    recorder.add_outcomes([1], [2, 5], outcomes)
    assert [hit for _, hit in outcomes.drawn["first"]] == [False]
    assert [hit for _, hit in outcomes.drawn["second"]] == [True]
    assert outcomes.drawn["later"] == []
    # 5 had 2 of the 3 shares that were left.
    assert outcomes.drawn["second"][0][0] == pytest.approx(np.log(2))


@pytest.mark.parametrize("rule", ["coupled", "speculative"])
def test_what_is_offered_from_a_shortlist_counts_too(rule):
    recorder, outcomes = OfferRecorder(), OfferOutcomes()
    view = TreeView((7, 8), (), rule, Sampling(1.0, seed=3))
    ranking = recorder.rank(view, 2, None, NoiseTrust())
    offers = ranking.over(torch.tensor([5, 9])).offers(
        torch.tensor([[0.0, 1.0]]), [2], Preceding(Text(view.tokens), [()])
    )
    offered = [each.token for each in ranking.choose(view, dict(enumerate(offers)), Expansion(least_probability=1e-9))]
    recorder.add_outcomes(view.tokens, [offered[0]], outcomes)
    found = outcomes.candidates if rule == "coupled" else outcomes.drawn["first"]
    assert {5, 9} >= {*offered}
    assert sum(is_committed for _, is_committed in found) == 1
