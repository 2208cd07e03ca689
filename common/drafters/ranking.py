"""From a draft model's logits to proposals, for the rule by which the target will choose: candidates in order of how
likely the target commits them, or a distribution from which siblings are sampled.

Both apply the target's logits processors first. It may know rules, processors and noise, not networks, K/V or state.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from common.drafters.best_first import Candidates, Expansion, choose, rescored
from common.drafters.calibration import NoiseTrust
from common.drafters.drawing import choose_groups
from common.protocol.messages import Draw
from common.protocol.noise import gumbel
from common.protocol.rules import RULES
from common.protocol.sampling import Sampling
from common.protocol.views import Proposal, TreeView
from common.sampling.logit_rows import sampled
from common.sampling.preceding import Preceding
from common.sampling.processors import Processors

_SHORTLIST = 64  # likeliest tokens that get noise
DRAWN_FROM = 16  # tokens that a group may be drawn from, which all travel
_WEIGHTS = 4096  # of a Draw, about
SHARPENED = 2.0
"""The exponent by which the draft's distribution is sharpened before siblings are sampled: a draft is less certain than
the target, which accepts more siblings of a sharper distribution; docs/log.md has the comparison."""
_LEAST = -1e4  # in place of the log-probability of tokens that filters removed

_NO_TOKENS = np.empty(0, np.int64)
_NO_FEATURES = np.empty((0, 2))

Offer = TypeVar("Offer")


class Ranking(Protocol[Offer]):
    """One way of choosing the next level. An offer holds the possible children of one node."""

    needs_tokens: bool
    """Whether `offers` needs the tokens before each row."""

    def offers(self, logits: torch.Tensor, positions: Sequence[int], before: Preceding) -> list[Offer]:
        """The offer of each row of `logits [rows, columns]`. `positions`: where the next token of each row goes;
        `before`: all tokens before it, where `needs_tokens`."""
        ...

    def over(self, columns: torch.Tensor) -> "Ranking[Offer]":
        """The same for logits whose columns are these tokens, int64 `[columns]`."""
        ...

    def rescored(self, view: TreeView, offers: Mapping[int, Offer]) -> TreeView:
        """The view with its nodes' probabilities as far as the `offers`, by id of the parent, 0 for the root, know
        them."""
        ...

    def choose(self, view: TreeView, offers: Mapping[int, Offer], expansion: Expansion) -> list[Proposal]:
        """The next level. `offers`: by id of the expanded node, 0 for the root."""
        ...

    def learn(self, offer: Offer, token: int) -> None:
        """Learns that the target committed `token` at the position of `offer`."""
        ...


Rank = Callable[[TreeView, int, torch.Tensor | None, NoiseTrust], Ranking[Any]]
"""Chooses a ranking, as `ranking_for` does."""


class Rankings:
    """The ranking of a drafter, another one whenever the target chooses otherwise than before. What is learnt of the
    noise stays."""

    current: Ranking[Any]
    """That of the last view, once there was one."""

    def __init__(self, rank: Rank, columns: torch.Tensor | None = None):
        """`columns` as for `ranking_for`."""
        self._rank, self._columns, self._trust = rank, columns, NoiseTrust()
        self._made_for: tuple[Any, ...] | None = None

    def follow(self, view: TreeView, children: int) -> bool:
        """Whether the ranking is a new one, for which no earlier offer is good."""
        made_for = (view.rule, view.sampling, view.unjudged, view.constraint, view.prompt_length)
        if made_for == self._made_for:
            return False
        self.current = self._rank(view, children, self._columns, self._trust)
        self._made_for = made_for
        return True


def ranking_for(view: TreeView, children: int, columns: torch.Tensor | None, trust: NoiseTrust) -> Ranking[Any]:
    """The ranking for a view's rule and for what processes the target's logits there. `columns`: the tokens of the
    logits' columns, None for the target's whole vocabulary; `trust`: the drafter's learnt weights of noise, which
    outlive the ranking."""
    rule, sampling = view.rule, view.sampling
    processed = _Processed(Processors(sampling, view.prompt_length, view.constraint, columns), columns)
    if view.unjudged and sampling.temperature:
        return PlainRanking(processed, sampling)
    if RULES[rule].grouped:
        return SampledRanking(processed, sampling)
    if rule == "coupled" and sampling.temperature:
        return GumbelRanking(processed, sampling, children, trust)
    return GreedyRanking(processed, children)


class _Processed:
    """The processors, over a network's columns."""

    def __init__(self, processors: Processors, columns: torch.Tensor | None):
        self._processors = processors
        self._columns = columns
        self.needs_tokens = processors.needs_tokens

    def over(self, columns: torch.Tensor) -> "_Processed":
        return _Processed(self._processors.over(columns), columns)

    def sampled(self, logits: torch.Tensor, positions: Sequence[int], before: Preceding, seed: int) -> list[int | None]:
        """The token that is sampled behind each row, None where filters left none."""
        rows = zip(self._processors(logits, before), positions, strict=True)
        return [sampled(row, seed, at, self._columns) if row.isfinite().any() else None for row, at in rows]

    def logps(self, logits: torch.Tensor, before: Preceding) -> torch.Tensor:
        """Log-probabilities, `[rows, columns]`."""
        return torch.log_softmax(self._processors(logits, before), dim=-1)

    def top(self, logits: torch.Tensor, before: Preceding, most: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The likeliest tokens and their log-probabilities, `[rows, most]`, likeliest first."""
        top = self.logps(logits, before).topk(min(most, logits.shape[-1]))
        tokens = top.indices if self._columns is None else self._columns[top.indices]
        # Some devices, such as mps, have no float64.
        return tokens.cpu().numpy(), top.values.cpu().double().numpy()


@dataclass(frozen=True, slots=True)
class Ranked:
    """Candidates of one node. `tokens [shortlist]`: what they were chosen from, and `features [shortlist, 2]`: log q
    and noise of these, from which weights are learnt; both empty where noise is not used."""

    candidates: Candidates
    tokens: NDArray[np.int64] = field(default_factory=lambda: _NO_TOKENS)
    features: NDArray[np.float64] = field(default_factory=lambda: _NO_FEATURES)


class GreedyRanking:
    """By the draft's probability: for rules that take the likeliest token, or any that is likely enough."""

    def __init__(self, processed: _Processed, children: int):
        self._processed = processed
        self._children = children
        self.needs_tokens = processed.needs_tokens

    def over(self, columns: torch.Tensor) -> "GreedyRanking":
        return GreedyRanking(self._processed.over(columns), self._children)

    def offers(self, logits: torch.Tensor, positions: Sequence[int], before: Preceding) -> list[Ranked]:
        tokens, logps = self._processed.top(logits, before, self._children)
        return [Ranked(_standing(*row)) for row in zip(tokens.tolist(), logps.tolist(), strict=True)]

    def rescored(self, view: TreeView, offers: Mapping[int, Ranked]) -> TreeView:
        return rescored(view, {id_: offer.candidates for id_, offer in offers.items()})

    def choose(self, view: TreeView, offers: Mapping[int, Ranked], expansion: Expansion) -> list[Proposal]:
        return choose(view, {id_: offer.candidates for id_, offer in offers.items()}, expansion)

    def learn(self, offer: Ranked, token: int) -> None:
        """Nothing is learnt."""


class PlainRanking(GreedyRanking):
    """The one token that the draft samples by itself, as a target does that decodes alone: for answers that no target
    judges."""

    def __init__(self, processed: _Processed, sampling: Sampling):
        super().__init__(processed, children=1)
        self._sampling = sampling

    def over(self, columns: torch.Tensor) -> "PlainRanking":
        return PlainRanking(self._processed.over(columns), self._sampling)

    def offers(self, logits: torch.Tensor, positions: Sequence[int], before: Preceding) -> list[Ranked]:
        tokens = self._processed.sampled(logits, positions, before, self._sampling.seed)
        return [Ranked(() if token is None else ((token, 0.0),)) for token in tokens]


class GumbelRanking(GreedyRanking):
    """By the draft's probability and the noise with which the target will sample (`coupled`)."""

    def __init__(self, processed: _Processed, sampling: Sampling, children: int, trust: NoiseTrust):
        super().__init__(processed, children)
        self._sampling = sampling
        self._trust = trust
        self._least = _LEAST * sampling.temperature

    def over(self, columns: torch.Tensor) -> "GumbelRanking":
        return GumbelRanking(self._processed.over(columns), self._sampling, self._children, self._trust)

    def offers(self, logits: torch.Tensor, positions: Sequence[int], before: Preceding) -> list[Ranked]:
        tokens, logps = self._processed.top(logits, before, _SHORTLIST)
        noise = gumbel(self._sampling.seed, np.array(positions)[:, None], tokens)
        # Where no token is left, as behind a draft's last head, there are no log-probabilities.
        certain = np.maximum(np.nan_to_num(logps, nan=_LEAST), _LEAST)
        features = np.stack([certain, noise], axis=-1) * self._sampling.temperature
        scores = np.where(np.isfinite(logps), self._trust.logps(features), -math.inf)
        best = np.argsort(-scores)[:, : self._children]
        return [
            Ranked(_standing(row[chosen].tolist(), scored[chosen].tolist()), row, of_row)
            for row, scored, chosen, of_row in zip(tokens, scores, best, features, strict=True)
        ]

    def learn(self, offer: Ranked, token: int) -> None:
        committed = np.flatnonzero(offer.tokens == token)
        # A token that was filtered out has no log-probability to learn from.
        if offer.candidates and len(committed) and offer.features[committed[0], 0] > self._least:
            self._trust.learn(offer.features, int(committed[0]))


class SampledRanking:
    """Groups of sampled siblings, which the target accepts or rejects by the distribution that they came from."""

    def __init__(self, processed: _Processed, sampling: Sampling):
        self._processed = processed
        self._sampling = sampling
        # Not from the seed: random numbers that decided committed tokens must not be used again in a later turn.
        self._random = random.Random()
        self.needs_tokens = processed.needs_tokens

    def over(self, columns: torch.Tensor) -> "SampledRanking":
        return SampledRanking(self._processed.over(columns), self._sampling)

    def offers(self, logits: torch.Tensor, positions: Sequence[int], before: Preceding) -> list[Draw]:
        tokens, logps = self._processed.top(logits, before, DRAWN_FROM if self._sampling.temperature else 1)
        # Where a constraint forbids all of them, which are few in a trimmed vocabulary, nothing is drawn.
        likely = np.nan_to_num(np.exp(SHARPENED * (logps - logps[:, :1])))
        weights = np.ceil(likely / np.maximum(likely.sum(-1, keepdims=True), 1.0) * _WEIGHTS).astype(int)
        rows = zip(tokens.tolist(), weights.tolist(), np.count_nonzero(weights, axis=1), strict=True)
        return [Draw(tuple(row[:kept]), tuple(shares[:kept])) for row, shares, kept in rows]

    def rescored(self, view: TreeView, offers: Mapping[int, Draw]) -> TreeView:
        """As it is: how many siblings a node gets must not depend on which tokens were drawn."""
        return view

    def choose(self, view: TreeView, offers: Mapping[int, Draw], expansion: Expansion) -> list[Proposal]:
        return choose_groups(view, offers, expansion, self._random)

    def learn(self, offer: Draw, token: int) -> None:
        """Nothing is learnt: siblings must depend on nothing but their `Draw`."""


def _standing(tokens: Sequence[int], logps: Sequence[float]) -> Candidates:
    """Tokens that filters left, with their log-probabilities."""
    return [(token, logp) for token, logp in zip(tokens, logps, strict=True) if logp > -math.inf]
