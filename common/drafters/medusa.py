"""`medusa`: Medusa's heads on the newest hidden state that has arrived propose one sparse tree.

It may know the heads, not trees beyond the view, slots, sessions or how state travels.

The target itself gives the token after the newest state; head k, counted from 0, predicts the token k + 1 positions
later. Where the state lags behind, the first heads predict tokens that are committed already: the other heads' tokens
are proposed as long as the committed tokens are among the candidates of their heads.

Under a rule with sampled siblings the likeliest tokens are proposed as point masses. A repetition penalty sees the
committed tokens, not those of other heads.

States are kept by position: after a turn that rewrites history, the newest one that is still valid is used, as the
server does not send it again.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any, NamedTuple

import torch
from torch import nn

from common.draft_models.medusa import KIND, RANKS, MedusaDraft, Ranks, load_medusa, sparse_tree
from common.drafters.best_first import Expansion
from common.drafters.calibration import NoiseTrust
from common.drafters.constrained import allowed_proposals
from common.drafters.drafter import NOTHING
from common.drafters.load import DrafterConfig, DrafterFactory, drafting_head, load_tail_for
from common.drafters.ranking import Rank, Ranked, Ranking, ranking_for
from common.drafters.state_values import state_values
from common.protocol.draft_state import HIDDEN
from common.protocol.messages import State, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.rules import RULES
from common.protocol.sampling import Sampling
from common.protocol.views import Proposal, TreeView
from common.sampling.preceding import Preceding, Text


class _Read(NamedTuple):
    """What candidates were computed from: the state at `position`, for a target that chooses in this way."""

    position: int
    prompt_length: int
    rule: str
    sampling: Sampling


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the heads or the tail are missing or broken."""
    draft = load_medusa(config.directory)
    tail = load_tail_for(draft, config, draft.config.hidden)
    head = drafting_head(tail)
    return lambda: MedusaDrafter(draft, head, config.request, config.expansion, config.ranking)


class MedusaDrafter:
    kind = KIND

    def __init__(
        self,
        draft: MedusaDraft,
        target_head: nn.Module,
        request: StateRequest,
        expansion: Expansion = Expansion(),  # noqa: B008
        rank: Rank = ranking_for,
    ):
        """`target_head` is the last layer of heads that share it. Of `expansion`, only the number of nodes and the
        least probability bound the tree: the accuracy of each rank of each head was measured beforehand."""
        self.state: StateRequest | None = request
        self._draft = draft
        self._target_head = target_head
        self.expansion = expansion
        self._rank = rank
        self._trust = NoiseTrust()
        self._like = next(draft.parameters())
        self._tokens: tuple[int, ...] = ()
        self._hidden: dict[int, torch.Tensor] = {}  # [E] by position, of the present tokens alone
        self._read: _Read | None = None  # what is offered was made of
        self._ranking: Ranking[Any] | None = None  # that made the offers
        self._offers: list[Ranked] = []  # of each head
        self._proposed: tuple[int, int] | None = None  # for which state and root
        self._trees: dict[int, list[Ranks]] = {}  # by how many heads are left out
        self._trees_within: tuple[int, float] | None = None  # the bounds that they were made for

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        self._follow(view.tokens)
        for state in states:
            if state.kind == HIDDEN:
                rows = state_values(state, self._like, self._draft.config.hidden)
                self._hidden.update(enumerate(rows, state.start))
        newest = self._newest_behind(len(view.tokens) - 1)
        now = (newest, len(view.tokens))
        if newest == NOTHING or now == self._proposed:
            return ()
        self._proposed = now
        read = _Read(newest, view.prompt_length, view.rule, view.sampling)
        if read != self._read:
            self._learn(view)
            self._read, self._offers = read, self._offer(newest, view)
        said = view.tokens[newest + 2 :]
        offered = [[token for token, _ in offer.candidates] for offer in self._offers]
        if any(token not in tokens for token, tokens in zip(said, offered, strict=False)):
            return ()
        return allowed_proposals(view, self._propose(view, offered[len(said) :]))

    def _follow(self, tokens: tuple[int, ...]) -> None:
        if self._tokens != tokens[: len(self._tokens)]:
            keep = common_prefix(self._tokens, tokens)
            self._hidden = {position: row for position, row in self._hidden.items() if position < keep}
            self._read = self._proposed = None
        self._tokens = tokens

    def _newest_behind(self, root: int) -> int:
        """The newest position before the root with a state. The root's own state, which a rewritten history may leave,
        predicts only what follows the next token."""
        return next((position for position in range(root - 1, -1, -1) if position in self._hidden), NOTHING)

    def _learn(self, view: TreeView) -> None:
        """Teaches the ranking which tokens the target chose at the positions of the heads' candidates."""
        if self._read is None or self._ranking is None or self._read.prompt_length != view.prompt_length:
            return
        of_the_target = range(view.prompt_length, view.verified_length)
        for position, offer in enumerate(self._offers, self._read.position + 2):
            if position in of_the_target:
                self._ranking.learn(offer, view.tokens[position])

    @torch.inference_mode()
    def _offer(self, newest: int, view: TreeView) -> list[Ranked]:
        heads, hidden = range(self._draft.config.heads), self._hidden[newest]
        logits = torch.stack([self._draft.logits(head, hidden, self._target_head) for head in heads])
        # A head does not know the tokens before its own, so that proposals are held to a constraint afterwards.
        seen = replace(view, rule="greedy" if RULES[view.rule].grouped else view.rule, constraint=None)
        self._ranking = self._rank(seen, RANKS, None, self._trust)
        before = Preceding(Text(view.tokens), [()] * len(heads))
        return self._ranking.offers(logits, [newest + 2 + head for head in heads], before)

    def _propose(self, view: TreeView, offered: Sequence[Sequence[int]]) -> list[Proposal]:
        """`offered`: the candidates of the heads that predict positions after the root."""
        ids = {path: id_ for id_, path in view.paths.items()}
        room = self.expansion.nodes - len(view.nodes)
        known = self._draft.config.heads - len(offered)
        accuracies = self._draft.config.accuracies[known:]
        proposals: list[Proposal] = []
        for ranks in self._tree(known):
            path = tuple(head[rank] for head, rank in zip(offered, ranks, strict=False) if rank < len(head))
            if len(path) < len(ranks) or path in ids or path[:-1] not in ids or len(proposals) >= room:
                continue
            proposals.append(Proposal(ids[path[:-1]], path[-1], log(accuracies[len(ranks) - 1][ranks[-1]])))
            ids[path] = -len(proposals)
        return proposals

    def _tree(self, known: int) -> list[Ranks]:
        bounds = self.expansion.nodes, self.expansion.least_probability
        if bounds != self._trees_within:
            self._trees, self._trees_within = {}, bounds
        if known not in self._trees:
            self._trees[known] = sparse_tree(self._draft.config.accuracies[known:], *bounds)
        return self._trees[known]
