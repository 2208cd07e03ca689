"""What a drafter proposes under each rule: logits are processed as the target processes its own."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from common.drafters.best_first import Expansion
from common.drafters.calibration import NoiseTrust
from common.drafters.ranking import Rankings, ranking_for
from common.protocol.messages import Draw
from common.protocol.noise import gumbel
from common.protocol.rules import RULES
from common.protocol.rules.verify_input import VerifyInput
from common.protocol.sampling import LIKELIEST, Sampling
from common.protocol.views import TreeView
from common.sampling.logit_rows import LogitRows
from common.sampling.preceding import NOTHING, Preceding, Text
from tests.chances import misfit
from tests.common.protocol.laws import processed

VOCABULARY = 60
ROWS = 5
BEFORE = [[1, 2, 3], [4], [5, 6, 59, 5], [0, 30], [7] * 9]
SEEN = Preceding(Text(()), BEFORE)
POSITIONS = [3, 1, 4, 17, 9]
SAMPLINGS = [
    Sampling(0.8, seed=5),
    Sampling(1.0, top_k=4, seed=6),
    Sampling(1.2, top_p=0.6, min_p=0.05, seed=2**63),
    Sampling(1.0, repetition_penalty=1.7, seed=8),
]


def some_logits(columns=VOCABULARY):
    return torch.randn(ROWS, columns, generator=torch.Generator().manual_seed(1)) * 2


def expected_chances(sampling, columns=None):
    """`[rows, vocabulary]`, with zero probability for tokens without a column."""
    columns = list(range(VOCABULARY)) if columns is None else columns
    found = []
    for row, before in zip(some_logits(len(columns)).numpy(), BEFORE, strict=True):
        logits = np.full(VOCABULARY, -np.inf)
        logits[columns] = row
        found.append(processed(logits, sampling, before))
    return np.array(found)


def full_trust():
    """As if the draft were the target: then log-probability and noise have equal weight."""
    trust = NoiseTrust()
    trust.weights = np.ones(2)
    return trust


def ranking(rule, sampling, children=6, columns=None):
    kept = None if columns is None else torch.tensor(columns)
    return ranking_for(TreeView((1,), (), rule, sampling), children, kept, full_trust())


def offers(rule, sampling, children=6, columns=None):
    logits = some_logits(VOCABULARY if columns is None else len(columns))
    return ranking(rule, sampling, children, columns).offers(logits, POSITIONS, SEEN)


def candidates(*asked):
    return [offer.candidates for offer in offers(*asked)]


# A trimmed vocabulary, in an order of its own.
COLUMNS = np.random.default_rng(0).permutation(VOCABULARY)[:25].tolist()
vocabularies = pytest.mark.parametrize("columns", [None, COLUMNS], ids=["all columns", "kept columns"])
samplings = pytest.mark.parametrize("sampling", SAMPLINGS)


@vocabularies
@samplings
def test_typical_offers_the_likeliest_of_what_the_processors_leave(sampling, columns):
    found = candidates("typical", sampling, 6, columns)
    for offered, p in zip(found, expected_chances(sampling, columns), strict=True):
        best = [token for token in np.argsort(-p)[:6].tolist() if p[token] > 0]
        assert [token for token, _ in offered] == best
        assert np.allclose([logp for _, logp in offered], np.log(p[best]), atol=1e-5)


@vocabularies
@pytest.mark.parametrize("rule", ["greedy", "coupled", "typical"])
def test_at_temperature_0_the_likeliest_are_offered_with_the_drafts_own_probability(rule, columns):
    found = candidates(rule, LIKELIEST, 4, columns)
    for offered, p in zip(found, expected_chances(Sampling(1.0), columns), strict=True):
        best = np.argsort(-p)[:4].tolist()
        assert [token for token, _ in offered] == best
        assert np.allclose([logp for _, logp in offered], np.log(p[best]), atol=1e-5)


@vocabularies
@samplings
def test_coupled_offers_tokens_in_the_order_of_log_q_and_the_noise_of_the_token_at_its_position(sampling, columns):
    found = candidates("coupled", sampling, 6, columns)
    for offered, p, position in zip(found, expected_chances(sampling, columns), POSITIONS, strict=True):
        with np.errstate(divide="ignore"):
            scores = np.log(p) + gumbel(sampling.seed, position, np.arange(VOCABULARY))
        best = [token for token in np.argsort(-scores)[:6].tolist() if p[token] > 0]
        assert [token for token, _ in offered] == best
        logps = [logp for _, logp in offered]
        assert sorted(logps, reverse=True) == logps
        assert sum(np.exp(logps)) <= 1 + 1e-9


@samplings
def test_a_draft_with_the_targets_logits_offers_first_what_the_target_samples(sampling):
    logits = some_logits()
    for row, offered in enumerate(candidates("coupled", sampling, 1)):
        before = BEFORE[row]
        asked = VerifyInput("coupled", sampling, POSITIONS[row], (before[-1],), (-1,), seen=tuple(before))
        target = LogitRows(asked, logits[row : row + 1], [0])
        assert offered[0][0] == target.choice(0)


RULES_THAT_SAMPLE = sorted(rule for rule in RULES if rule != "greedy")


@vocabularies
@samplings
@pytest.mark.parametrize("rule", RULES_THAT_SAMPLE)
def test_an_answer_that_no_target_judges_is_sampled_from_the_drafts_own_distribution(rule, sampling, columns):
    chances = expected_chances(sampling, columns)[0]
    counts = np.zeros(VOCABULARY)
    kept = None if columns is None else torch.tensor(columns)
    logits, tries = some_logits(VOCABULARY if columns is None else len(columns))[:1].expand(2_000, -1), range(2_000)
    view = TreeView((1,), (), rule, sampling, alone=True, unjudged=True)
    drafts = ranking_for(view, 6, kept, full_trust())
    for offer in drafts.offers(logits, tries, Preceding(Text(BEFORE[0]), [()] * 2_000)):
        ((token, _),) = offer.candidates
        counts[token] += 1
    assert misfit(counts, chances) < 1


@samplings
def test_an_answer_that_no_target_judges_is_what_a_target_with_these_logits_would_sample(sampling):
    logits, view = some_logits(), TreeView((1,), (), "speculative", sampling, alone=True, unjudged=True)
    offered = ranking_for(view, 6, None, NoiseTrust()).offers(logits, POSITIONS, SEEN)
    for row, offer in enumerate(offered):
        before = BEFORE[row]
        asked = VerifyInput("coupled", sampling, POSITIONS[row], (before[-1],), (-1,), seen=tuple(before))
        assert offer.candidates[0][0] == LogitRows(asked, logits[row : row + 1], [0]).choice(0)


def test_where_filters_leave_no_column_nothing_is_sampled():
    sampling = Sampling(1.0, logit_bias=((3, -math.inf),))
    view = TreeView((1,), (), "coupled", sampling, alone=True, unjudged=True)
    (offer,) = ranking_for(view, 6, torch.tensor([3]), NoiseTrust()).offers(
        torch.zeros(1, 1), [4], Preceding(Text([1]), [()])
    )
    assert offer.candidates == ()


class EveryOther:
    """Which tokens it allows depends on how long the answer is."""

    def allowed(self, answer):
        return np.arange(VOCABULARY) % 2 == len(answer) % 2


@samplings
@pytest.mark.parametrize("rule", ["greedy", "coupled", "typical", "speculative"])
def test_a_ranking_for_other_columns_offers_what_one_that_was_made_for_them_offers(rule, sampling):
    sampling = replace(LIKELIEST if rule == "greedy" else sampling, presence_penalty=2.0, logit_bias=((3, 1.0),))
    view = TreeView((1,), (), rule, sampling, prompt_length=1, constraint=EveryOther())
    logits, kept = some_logits(len(COLUMNS)), torch.tensor(COLUMNS)
    theirs, anew = (
        [getattr(offer, "candidates", offer) for offer in each.offers(logits, POSITIONS, SEEN)]
        for each in (ranking_for(view, 6, kept, full_trust()), ranking_for(view, 6, None, full_trust()).over(kept))
    )
    assert anew == theirs


def coupled(sampling, trust):
    return ranking_for(TreeView((1,), (), "coupled", sampling), 6, None, trust)


def test_offers_that_were_made_without_noise_teach_nothing_of_it():
    trust = full_trust()
    for offer in ranking_for(TreeView((1,), ()), 6, None, trust).offers(some_logits(), POSITIONS, SEEN):
        coupled(Sampling(1.0, seed=3), trust).learn(offer, offer.candidates[0][0])
    assert trust.weights.tolist() == [1, 1]


def test_a_draft_that_is_always_right_learns_to_trust_the_noise_and_one_that_never_is_not_to():
    sampling, spread = Sampling(1.0, seed=3), torch.randn(400, VOCABULARY, generator=torch.Generator().manual_seed(2))
    trusts = {}
    for right in (True, False):
        trusts[right] = trust = NoiseTrust()
        drafts = coupled(sampling, trust)
        for position, row in enumerate(spread):
            (offer,) = drafts.offers(row[None], [position], NOTHING)
            noise = gumbel(sampling.seed if right else 99, position, np.arange(VOCABULARY))
            drafts.learn(offer, int((row.double().numpy() + noise).argmax()))
    assert trusts[True].weights[1] > 1
    assert trusts[False].weights[1] < 0.2
    assert trusts[False].weights[0] > 0.5


def test_a_committed_token_that_was_filtered_out_teaches_nothing():
    trust, row = NoiseTrust(), some_logits()[:1]
    ranking = coupled(Sampling(0.7, seed=3, top_k=4), trust)
    (offer,) = ranking.offers(row, [0], ())
    before = trust.weights.tolist()
    for token in row[0].topk(VOCABULARY).indices[4:].tolist():
        ranking.learn(offer, token)
    assert trust.weights.tolist() == before
    ranking.learn(offer, offer.candidates[0][0])
    assert trust.weights.tolist() != before


def test_filters_remove_candidates():
    for kept in (1, 2, 4):
        sampling = Sampling(1.0, top_k=kept)
        assert {len(offered) for offered in candidates("typical", sampling)} == {kept}
        assert {len(offered) for offered in candidates("coupled", sampling)} == {kept}
        assert {len(draw.tokens) for draw in offers("speculative", sampling)} == {kept}


@vocabularies
@samplings
def test_speculative_offers_to_draw_from_the_likeliest_likelier_ones_first(sampling, columns):
    found = offers("speculative", sampling, 6, columns)
    for draw, p in zip(found, expected_chances(sampling, columns), strict=True):
        assert list(draw.tokens) == [token for token in np.argsort(-p)[:16].tolist() if p[token] > 0]
        assert sorted(draw.weights, reverse=True) == list(draw.weights)
        assert 4096 <= sum(draw.weights) <= 4096 + 16
        assert all(isinstance(each, int) for each in (*draw.tokens, *draw.weights))
        assert min(draw.weights) >= 1


@vocabularies
def test_at_temperature_0_there_is_one_token_to_draw(columns):
    for draw, p in zip(offers("speculative", LIKELIEST, 6, columns), expected_chances(LIKELIEST, columns), strict=True):
        assert draw.tokens == (int(p.argmax()),)


def test_what_is_drawn_level_after_level_is_drawn_as_offered():
    drafts = ranking("speculative", Sampling(1.0, seed=4))
    draw = Draw((3, 1, 2), (60, 30, 10))
    counts = dict.fromkeys(draw.tokens, 0)
    for _ in range(6_000):
        (proposal,) = drafts.choose(TreeView((1,), ()), {0: draw}, Expansion(children=1))
        drafts.learn(draw, 3)
        counts[proposal.token] += 1
    assert misfit(list(counts.values()), draw.weights) < 1


@pytest.mark.parametrize("rule", RULES)
def test_only_a_penalty_asks_for_what_came_before(rule):
    assert not ranking(rule, LIKELIEST).needs_tokens
    assert ranking(rule, Sampling(repetition_penalty=1.2)).needs_tokens
    assert ranking(rule, LIKELIEST).offers(some_logits(), POSITIONS, ()) == offers(rule, LIKELIEST)


def test_a_ranking_stays_until_the_target_chooses_otherwise_and_what_was_learnt_stays_longer():
    asked = []

    def rank(view, children, columns, trust):
        asked.append((view, children, trust))
        return ranking_for(view, children, columns, trust)

    rankings = Rankings(rank)
    view = TreeView((1,), (), "coupled", Sampling(1.0, seed=5), prompt_length=1)
    assert rankings.follow(view, 6)
    first = rankings.current
    assert not rankings.follow(replace(view, tokens=(1, 2)), 6)
    assert rankings.current is first
    changes = {
        "rule": "greedy",
        "sampling": Sampling(1.0, seed=6),
        "constraint": EveryOther(),
        "prompt_length": 2,
        "unjudged": True,
    }
    for name, value in changes.items():
        assert rankings.follow(changed := replace(view, **{name: value}), 6), name
        assert not rankings.follow(changed, 6)
        assert rankings.follow(view, 6)
    assert len({id(trust) for *_, trust in asked}) == 1
