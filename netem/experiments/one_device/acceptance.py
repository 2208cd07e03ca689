"""Which of a drafter's offers were accepted under rules that sample, and the calibration fitted to that.

What may live here: recording a ranking, comparing it with the committed answer, logistic regression. It may not know
prompts, systems or reports.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Any

import numpy as np
import torch

from common.drafters.best_first import Candidates, Expansion
from common.drafters.calibration import NoiseTrust, log_odds
from common.drafters.ranking import GumbelRanking, Ranked, Ranking, SampledRanking, ranking_for
from common.protocol.messages import Draw
from common.protocol.views import Proposal, TreeView
from common.sampling.preceding import Preceding

ORDERS = ("first", "second", "later")

_STEPS = 50  # of Newton's method, which needs about ten

Pairs = list[tuple[float, bool]]
"""A drafter's score of a token, and whether the target committed that token."""


@dataclass
class OfferOutcomes:
    """candidates: log-probabilities that a drafter gave to candidates ranked with noise. drawn: log-odds of the share
    with which a sibling was drawn, by its order among siblings. trusts: the weights of the noise at the end of each
    answer."""

    candidates: Pairs = field(default_factory=list)
    drawn: dict[str, Pairs] = field(default_factory=lambda: {order: [] for order in ORDERS})
    trusts: list[tuple[float, float]] = field(default_factory=list)


class OfferRecorder:
    """Makes rankings that record their offers; `add_outcomes` then compares the offers with the answer.

    Offers are stored by the tokens before them. Only those on the answer's own path were verified by the target.
    """

    def __init__(self) -> None:
        self._offered: dict[tuple[int, ...], Candidates] = {}
        self._groups: dict[tuple[int, ...], list[Proposal]] = {}
        self._trust = NoiseTrust()

    def rank(self, view: TreeView, children: int, columns: torch.Tensor | None, trust: NoiseTrust) -> Ranking[Any]:
        ranking = ranking_for(view, children, columns, trust)
        if isinstance(ranking, GumbelRanking):
            self._trust = trust
            return _RecordedPerturbed(ranking, self._offered)
        return _RecordedDrawn(ranking, self._groups) if isinstance(ranking, SampledRanking) else ranking

    def add_outcomes(self, prompt: Sequence[int], answer: Sequence[int], outcomes: OfferOutcomes) -> None:
        """Adds the outcomes of the offers on the path of `answer` to `outcomes`, and clears all offers."""
        for index, token in enumerate(answer):
            path = (*prompt, *answer[:index])
            outcomes.candidates += [(logp, each == token) for each, logp in self._offered.get(path, ())]
            if path in self._groups:
                _compare_group(self._groups[path], token, outcomes.drawn)
        if self._offered:
            outcomes.trusts.append((float(self._trust.weights[0]), float(self._trust.weights[1])))
        self._offered.clear()
        self._groups.clear()


class _RecordedPerturbed:
    needs_tokens = True

    def __init__(self, ranking: GumbelRanking, offered: dict[tuple[int, ...], Candidates]):
        self._ranking, self._offered = ranking, offered

    def offers(self, logits: torch.Tensor, positions: Sequence[int], before: Preceding) -> list[Ranked]:
        offers = self._ranking.offers(logits, positions, before)
        for path, offer in zip(before.paths, offers, strict=True):
            self._offered[*before.text.tokens, *path] = offer.candidates
        return offers

    def over(self, columns: torch.Tensor) -> "_RecordedPerturbed":
        return _RecordedPerturbed(self._ranking.over(columns), self._offered)

    def rescored(self, view: TreeView, offers: Mapping[int, Ranked]) -> TreeView:
        return self._ranking.rescored(view, offers)

    def choose(self, view: TreeView, offers: Mapping[int, Ranked], expansion: Expansion) -> list[Proposal]:
        return self._ranking.choose(view, offers, expansion)

    def learn(self, offer: Ranked, token: int) -> None:
        self._ranking.learn(offer, token)


class _RecordedDrawn:
    def __init__(self, ranking: SampledRanking, groups: dict[tuple[int, ...], list[Proposal]]):
        self.needs_tokens = ranking.needs_tokens
        self.offers, self.learn, self.rescored = ranking.offers, ranking.learn, ranking.rescored
        self._ranking, self._groups = ranking, groups

    def over(self, columns: torch.Tensor) -> "_RecordedDrawn":
        return _RecordedDrawn(self._ranking.over(columns), self._groups)

    def choose(self, view: TreeView, offers: Mapping[int, Draw], expansion: Expansion) -> list[Proposal]:
        paths = {0: view.tokens}
        for node in view.nodes:
            paths[node.id] = (*paths[node.parent], node.token)
        proposals = self._ranking.choose(view, offers, expansion)
        for proposal in proposals:
            self._groups.setdefault(paths[proposal.parent], []).append(proposal)
        return proposals


def _compare_group(group: Sequence[Proposal], token: int, outcomes: Mapping[str, Pairs]) -> None:
    """Adds the outcomes of siblings in order; those behind the accepted one were not tried."""
    draw = group[0].draw
    assert draw is not None
    left = dict(zip(draw.tokens, draw.weights, strict=True))
    for index, proposal in enumerate(group):
        share = left[proposal.token] / sum(left.values())
        outcomes[ORDERS[min(index, len(ORDERS) - 1)]].append((log_odds(share), proposal.token == token))
        if proposal.token == token:
            return
        del left[proposal.token]


@dataclass(frozen=True, slots=True)
class Fit:
    """log-odds = base + slope * x. count: of outcomes. rate: the share that was committed. loss: the mean log-loss in
    nats; blind_loss: that of predicting the rate."""

    base: float
    slope: float
    count: int
    rate: float
    loss: float
    blind_loss: float


def fit(pairs: Pairs) -> Fit | None:
    """Logistic regression by Newton's method; None where all outcomes are the same."""
    x, hit = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs], dtype=float)
    if not 0 < hit.sum() < len(hit):
        return None
    columns = np.stack([np.ones_like(x), x])
    weights = np.zeros(2)
    for _ in range(_STEPS):
        probability = 1 / (1 + np.exp(-weights @ columns))
        curvature = (columns * (probability * (1 - probability))) @ columns.T + 1e-6 * np.eye(2)
        weights += np.linalg.solve(curvature, columns @ (hit - probability))
    probability = np.clip(1 / (1 + np.exp(-weights @ columns)), 1e-12, 1 - 1e-12)
    rate = float(hit.mean())
    return Fit(
        float(weights[0]),
        float(weights[1]),
        len(hit),
        rate,
        _log_loss(hit, probability),
        _log_loss(hit, np.full_like(x, rate)),
    )


def _log_loss(hit: np.ndarray, probability: np.ndarray) -> float:
    return float(-(hit * np.log(probability) + (1 - hit) * np.log(1 - probability)).mean())


def calibration_error(pairs: Pairs, logps: Sequence[float], bins: int = 10) -> float:
    """The expected calibration error (Naeini et al. 2015): the mean distance of the predicted from the observed share,
    over bins of equal size by prediction.

    logps: the predicted log-probability of each pair.
    """
    order = np.argsort(logps)
    hit = np.array([pair[1] for pair in pairs], dtype=float)[order]
    predicted = np.array([exp(logp) for logp in logps])[order]
    parts = zip(np.array_split(hit, bins), np.array_split(predicted, bins), strict=True)
    return float(np.mean([abs(seen.mean() - claimed.mean()) for seen, claimed in parts if len(seen)]))
