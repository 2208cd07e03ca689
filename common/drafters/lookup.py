"""`lookup`: proposes the tokens that followed the last occurrence of the newest n-gram. It needs no model.

Prompt lookup decoding (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding), continued from the deepest node of
the tree instead of restarted in each round. The log-probability of a proposal is learnt: how often matches of that
length were right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.drafters.best_first import Expansion
from common.drafters.constrained import allowed_proposals
from common.protocol.messages import State, StateRequest
from common.protocol.views import Proposal, TreeView

if TYPE_CHECKING:
    from common.drafters.load import DrafterConfig, DrafterFactory

_LONGEST_MATCH = 5
_SPAN = 8  # tokens proposed at a time
_DEEPEST = 32  # tokens ahead of the root
_PRIOR_TRIALS = 4.0


def load(config: "DrafterConfig") -> "DrafterFactory":
    """There are no weights to load."""
    return lambda: LookupDrafter(config.expansion)


@dataclass
class _Record:
    """How often proposals made from a match of one length were committed."""

    hits: float
    trials: float = _PRIOR_TRIALS

    @property
    def logp(self) -> float:
        return math.log(self.hits / self.trials)


class LookupDrafter:
    kind = "lookup"
    state: StateRequest | None = None

    def __init__(self, expansion: Expansion = Expansion()) -> None:  # noqa: B008
        """It proposes one chain: of `expansion`, only the number of nodes bounds it."""
        self.expansion = expansion
        self._tokens: list[int] = []
        self._next: dict[tuple[int, ...], int] = {}  # n-gram -> the position after its last occurrence
        self._records = [_Record(_PRIOR_TRIALS * n / (n + 2)) for n in range(1, _LONGEST_MATCH + 1)]
        self._open: dict[int, tuple[int, int]] = {}  # position -> the token proposed there, and its match length

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        self._follow(view.tokens, len(view.tokens) - view.provisional)
        parent, path = _tip(view)
        depth = len(path)
        if depth >= _DEEPEST:
            return []
        proposals: list[Proposal] = []
        length, at = self._match([*view.tokens[-_LONGEST_MATCH:], *path])
        room = min(_SPAN, _DEEPEST - depth, self.expansion.nodes - len(view.nodes))
        for token in self._tokens[at : at + max(0, room)] if length else ():
            proposals.append(Proposal(parent, token, self._records[length - 1].logp))
            parent = -len(proposals)
            self._open[len(view.tokens) + depth] = (token, length)
            depth += 1
        return allowed_proposals(view, proposals)

    def _match(self, tail: list[int]) -> tuple[int, int]:
        """The longest suffix of `tail` that was seen before: its length, and the position after it."""
        for length in range(min(_LONGEST_MATCH, len(tail)), 0, -1):
            at = self._next.get(tuple(tail[-length:]))
            if at is not None and at < len(self._tokens):
                return length, at
        return 0, 0

    def _follow(self, tokens: tuple[int, ...], judged: int) -> None:
        """Follows the sequence. Only its first `judged` tokens are the target's; they show which matches were right."""
        known = len(self._tokens)
        if tuple(self._tokens) != tokens[:known]:
            known = 0
            self._tokens, self._next, self._open = [], {}, {}
        for position in range(known, len(tokens)):
            if position < judged:
                self._judge(position, tokens[position])
            self._index(position)
            self._tokens.append(tokens[position])

    def _index(self, position: int) -> None:
        """Indexes the n-grams that end before `position`, so that a suffix never finds itself."""
        for length in range(1, min(_LONGEST_MATCH, position) + 1):
            self._next[tuple(self._tokens[position - length : position])] = position

    def _judge(self, position: int, token: int) -> None:
        proposed = self._open.pop(position, None)
        if proposed is None:
            return
        record = self._records[proposed[1] - 1]
        record.trials += 1
        if proposed[0] == token:
            record.hits += 1
        else:
            self._open.clear()  # what hung from a wrong token says nothing of its match


def _tip(view: TreeView) -> tuple[int, list[int]]:
    """The deepest node of the view, likeliest first, and the tokens from below the root to it."""
    if not view.nodes:
        return 0, []
    nodes = {node.id: node for node in view.nodes}
    tip = max(view.nodes, key=lambda node: (node.position, node.logp))
    path = [tip.token]
    at = tip.parent
    while at:
        path.append(nodes[at].token)
        at = nodes[at].parent
    return tip.id, path[::-1]
