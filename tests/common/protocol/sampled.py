"""The joined halves with a target that has a distribution behind every prefix, for speculative and coupled decoding."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from common.drafters.best_first import Expansion
from common.drafters.drawing import choose_groups
from common.drafters.lookup import LookupDrafter
from common.drafters.merged import MergedDrafter
from common.drafters.ouroboros import OuroborosDrafter
from common.protocol.messages import Draw, State
from common.protocol.rules import RULES
from common.protocol.sampling import Sampling
from common.protocol.scheduled_tokens import ScheduledTokens
from common.protocol.terms import Terms
from common.protocol.transitions import ClientState
from common.protocol.views import Proposal, TreeView
from tests.common.protocol.joined import Joined, LinkFaults
from tests.common.protocol.laws import Law
from tests.common.protocol.rules.rows import Samples, seeded_choice

Offers = Callable[[tuple[int, ...]], Draw]
"""What a drafter draws from behind a prefix."""

_SHARES = 1000  # of a Draw, about


def offers_of(law: Law) -> Offers:
    """Draws from a distribution, rounded to whole numbers."""

    @cache
    def offer(prefix: tuple[int, ...]) -> Draw:
        weights = np.ceil(law(prefix) * _SHARES).astype(int)
        tokens = np.flatnonzero(weights)
        return Draw(tuple(tokens.tolist()), tuple(weights[tokens].tolist()))

    return offer


@dataclass(frozen=True)
class Drafting:
    """How groups are made: `widths` of siblings drawn (or picked if `certain`) below random nodes, or by the drafters'
    own choice of groups if `own`, merged with those of another that draws from `others`, of lookup and of
    ouroboros."""

    widths: tuple[int, ...] = (1, 2, 3)
    certain: bool = False
    own: bool = False
    others: Law | None = None
    late: float = 0.3  # share of levels that are proposed from an old view


class GroupDrafter:
    """The drafters' choice of groups, from what is given behind a prefix."""

    kind = "groups"
    state = None

    def __init__(self, offers: Offers, rng: random.Random):
        self.expansion = Expansion()
        self._offers, self._rng = offers, rng

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        offers = {id_: self._offers((*view.tokens, *path)) for id_, path in view.paths.items()}
        return choose_groups(view, offers, self.expansion, self._rng)


class Drawing(Joined):
    """A drafter of groups, at a target that judges them."""

    def __init__(
        self, terms: Terms, faults: LinkFaults, law: Law, offers: Offers, drafting: Drafting, seed: int, budget: int
    ):
        super().__init__(terms, faults, salt=0, seed=seed, budget=budget)
        self._law, self._offers, self._drafting = law, offers, drafting
        self._draws = random.Random(f"draws of {seed}")
        own = GroupDrafter(offers, self._draws)
        other = None if drafting.others is None else GroupDrafter(offers_of(drafting.others), self._draws)
        self._drafter = own if other is None else MergedDrafter([own, other], [LookupDrafter(), OuroborosDrafter()])
        self.of_several = 0  # groups that were not drawn from one distribution
        self.accepted = 0
        self.left_out = 0  # passes with less than the whole tree
        self.too_late = 0  # levels below an old root
        self.restarts = 0

    def _level(self, view: TreeView) -> list[Proposal]:
        if self.client.room < 2 or len(view.nodes) >= self.terms.max_nodes:
            return []
        paths = {0: view.tokens}
        for node in view.nodes:
            paths[node.id] = (*paths[node.parent], node.token)
        if self._drafting.own:
            breadth = self._draws.randint(1, 6)
            self._drafter.expansion = Expansion(breadth, children=3, nodes=self.terms.max_nodes, least_probability=1e-3)
            level = self._drafter.draft(view)
            drawn_from = {(each.parent, each.draw) for each in level}
            self.of_several += len(drawn_from) - len({parent for parent, _ in drawn_from})
            return list(level)
        taken = {node.parent for node in view.nodes}
        level = [
            each
            for id_, path in paths.items()
            if id_ not in taken and self._draws.random() < 0.6
            for each in self._group(id_, path)
        ]
        if self._draws.random() < 0.5:
            return level
        below = (self._group(-k, (*paths[each.parent], each.token)) for k, each in enumerate(level, start=1))
        return [*level, *(each for group in below for each in group)]

    def _group(self, parent: int, path: tuple[int, ...]) -> list[Proposal]:
        draw = self._offers(path)
        left = dict(zip(draw.tokens, draw.weights, strict=True))
        group = []
        total = sum(draw.weights)
        for _ in range(min(self._draws.choice(self._drafting.widths), len(left))):
            token = max(left, key=left.__getitem__) if self._drafting.certain else self._drawn(left)
            logp = math.log(left.pop(token) / total)
            group.append(Proposal(parent, token, logp, None if self._drafting.certain else draw))
        return group

    def _drawn(self, left: dict[int, int]) -> int:
        """One token by its weight; `random.choices` takes twice as long for so few."""
        at = self._draws.random() * sum(left.values())
        for token, weight in left.items():
            at -= weight
            if at < 0:
                return token
        return token

    def _propose(self, frontier: int, proposals: list[Proposal]) -> None:
        late = self.random.random() < self._drafting.late
        self._at(self.random.uniform(0.01, 0.06) if late else 0.0, lambda: self._propose_now(frontier, proposals))

    def _propose_now(self, frontier: int, proposals: list[Proposal]) -> None:
        if self.client.state in (ClientState.OPENING, ClientState.GENERATING):
            self.too_late += bool(proposals) and frontier < self.client.tree.frontier
            super()._propose(frontier, proposals)

    def _decide(self, scheduled: ScheduledTokens) -> list[int]:
        if scheduled.verify_input is None:
            return []
        assert self.server is not None
        self.left_out += scheduled.nodes < len(self.server.tree)
        before = (*self.processed, *scheduled.chain)
        rows = Samples(scheduled.verify_input, lambda path: self._law((*before, *path)))
        tokens = RULES[scheduled.verify_input.rule].walk(scheduled.verify_input, rows)
        self.accepted += len(tokens) - 1
        return tokens

    def _break(self) -> None:
        super()._break()
        self.restarts += self.server is None


class Coupled(Joined):
    """A drafter that proposes the target's samples with the probability `skill`."""

    def __init__(self, terms: Terms, faults: LinkFaults, law: Law, sampling: Sampling, seed: int, budget: int):
        super().__init__(terms, faults, salt=0, seed=seed, budget=budget)
        self._law, self._sampling = law, sampling

    def _next(self, tokens: list[int]) -> int:
        return seeded_choice(self._law(tuple(tokens)), self._sampling.seed, len(tokens))
