"""A target and a drafter whose distributions are tables, so that hundreds of thousands of answers take minutes and the
distribution of each token is known exactly.

They replace networks: the target stores tokens in the slots where a network stores K/V, and computes from what it finds
there. May know segments, rules and views. It may not know sessions, links or time.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from common.drafters.best_first import Expansion
from common.drafters.block_only_drafter import BlockOnlyDrafter
from common.drafters.drafter import Drafter
from common.drafters.drawing import choose_groups
from common.drafters.predicted_blocks import Block, Path
from common.protocol.messages import Draw, State, StateRequest
from common.protocol.rules import RULES
from common.protocol.rules.verify_input import VerifyInput
from common.protocol.scheduled_tokens import ScheduledTokens
from common.protocol.views import Proposal, TreeView
from common.sampling.preceding import Preceding
from server.passes.batch import ChosenTokens, PassOutcome

Distribution = NDArray[np.float64]

END = 0  # has probability 0 in every table
VOCABULARY = 6
CHANCES = (0.6, 0.12, 0.1, 0.1, 0.08)
"""The target's probabilities, likeliest first."""

BLOCK = 4
"""Positions that a block predicts."""

_POWERS = (1.0, 1.2)  # a draft draws from the target's probabilities raised to one of these
_SHARES = 1000  # of a Draw, about


@dataclass(frozen=True)
class Tables:
    """By the last token, the distributions of the next token, of the target and of the draft.

    ranked: tokens, the target's likeliest first. The target's probabilities are always CHANCES, of other tokens in each
    table, so that the rank of a token always has the same distribution.
    """

    ranked: tuple[tuple[int, ...], ...]
    target: tuple[Distribution, ...]
    draft: tuple[Draw, ...]

    def ranks(self, last: int, tokens: Sequence[int]) -> list[int]:
        """The rank of each token in the table of the token before it; `last` precedes the first."""
        return [self.ranked[before].index(token) for before, token in pairwise((last, *tokens))]


def make_tables(seed: int) -> Tables:
    """Random tables. The draft's distribution is as sharp as the target's in some tables, and sharper in others."""
    dice = np.random.default_rng(seed)
    ranked, target, draft = [], [], []
    for last in range(VOCABULARY):
        order = 1 + dice.permutation(VOCABULARY - 1)
        p = np.zeros(VOCABULARY)
        p[order] = CHANCES
        q = p ** _POWERS[last % len(_POWERS)]
        weights = np.ceil(q / q.sum() * _SHARES).astype(int)
        tokens = np.flatnonzero(weights)
        ranked.append(tuple(order.tolist()))
        target.append(p)
        draft.append(Draw(tuple(tokens.tolist()), tuple(weights[tokens].tolist())))
    return Tables(tuple(ranked), tuple(target), tuple(draft))


class TableTarget:
    """Replaces a target."""

    def __init__(self, tables: Tables, capacity: int):
        self._tables = tables
        self._held = [END] * capacity

    def verify(self, scheduled: Sequence[ScheduledTokens]) -> list[PassOutcome]:
        return [self._verify(each) for each in scheduled]

    def _verify(self, scheduled: ScheduledTokens) -> PassOutcome:
        for token, slot in zip(scheduled.tokens, scheduled.slots, strict=True):
            self._held[slot] = int(token)
        verify_input = scheduled.verify_input
        if verify_input is None:
            return ChosenTokens(())
        root = int(scheduled.tokens[scheduled.wanted[0]])
        rows = _TableRows(verify_input, self._tables, root)
        return ChosenTokens(RULES[verify_input.rule].walk(verify_input, rows))


class _TableRows:
    def __init__(self, verify_input: VerifyInput, tables: Tables, root: int):
        self._verify_input, self._tables, self._root = verify_input, tables, root

    def choice(self, row: int) -> int:
        return int(self.probabilities(row).argmax())

    def probabilities(self, row: int) -> Distribution:
        path = self._verify_input.path(row)
        return self._tables.target[path[-1] if path else self._root].copy()


class TableDrafter:
    """Draws one level in each step, as drafters with a network that goes one token ahead do."""

    kind = "table"
    state: StateRequest | None = None

    def __init__(self, tables: Tables, seed: int):
        self.expansion = Expansion()
        self._tables = tables
        self._random = random.Random(seed)

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        last = {0: view.tokens[-1]} | {node.id: node.token for node in view.nodes}
        offers = {id_: self._tables.draft[token] for id_, token in last.items()}
        return choose_groups(view, offers, self.expansion, self._random)


class TableBlockDrafter(BlockOnlyDrafter):
    """Predicts a block in each step, from which `BlockOnlyDrafter` draws one level or several."""

    def __init__(self, tables: Tables, seed: int):
        ranking = _TableRanking(tables, seed)
        super().__init__(_TableBlocks(), None, rank=lambda *_: ranking)


class _TableBlocks:
    """Replaces a network. Its logits, `[paths, 1]`, are the token before the predicted one, which finds its table."""

    kind = "table of blocks"
    length = BLOCK
    newest_state = -1

    def absorb(self, states: Sequence[State]) -> None:
        """There is no draft state."""

    def forget(self, keep: int) -> None:
        """Nothing is kept."""

    def predict_block(self, tokens: Sequence[int], path: Sequence[int]) -> Block:
        anchor = [*tokens, *path][-1]
        return Block(len(tokens), tuple(path), -1, torch.full((BLOCK,), anchor), torch.arange(VOCABULARY))

    def logits(self, block: Block, paths: Sequence[Path]) -> torch.Tensor:
        return torch.tensor([[path[-1] if path else int(block.hidden[0])] for path in paths])


class _TableRanking:
    needs_tokens = False

    def __init__(self, tables: Tables, seed: int):
        self._tables = tables
        self._random = random.Random(seed)

    def over(self, columns: torch.Tensor) -> "_TableRanking":
        return self

    def offers(self, logits: torch.Tensor, positions: Sequence[int], before: Preceding) -> list[Draw]:
        return [self._tables.draft[last] for last in logits[:, 0].tolist()]

    def rescored(self, view: TreeView, offers: Mapping[int, Draw]) -> TreeView:
        return view

    def choose(self, view: TreeView, offers: Mapping[int, Draw], expansion: Expansion) -> list[Proposal]:
        return choose_groups(view, offers, expansion, self._random)

    def learn(self, offer: Draw, token: int) -> None:
        """Nothing is learnt."""


DRAFTERS: dict[str, Callable[[Tables, int], Drafter]] = {"levels": TableDrafter, "blocks": TableBlockDrafter}
"""From the tables and a seed, by what a step predicts."""
