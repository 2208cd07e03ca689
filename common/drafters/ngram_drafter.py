"""What drafters without a model have in common: they follow the text, and propose behind every node, whoever proposed
it, what followed its newest tokens before, the likeliest first.

It may not know where else a kind takes its n-grams from.
"""

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from common.drafters.best_first import Expansion, scores
from common.drafters.constrained import allowed_proposals
from common.drafters.ngram_pool import NgramPool, TextPool
from common.protocol.messages import State, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.views import Proposal, TreeView

_DEEPEST = 32  # tokens ahead of the root


class NgramDrafter(ABC):
    """`text` holds the n-grams of the sequence, `others` what else a kind has seen. A sequence that is rewritten leaves
    the n-grams of its new text alone."""

    kind: str
    state: StateRequest | None = None

    def __init__(self, expansion: Expansion, text: TextPool, *others: NgramPool):
        self.expansion = expansion
        self._text = text
        self._pools = (text, *others)
        self._longest = max(pool.longest for pool in self._pools)
        self._tokens: tuple[int, ...] = ()

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        self._follow(view)
        return allowed_proposals(view, self._propose(view, max(0, self.expansion.nodes - len(view.nodes))))

    @abstractmethod
    def _propose(self, view: TreeView, room: int) -> list[Proposal]:
        """At most `room` proposals."""

    def _likeliest(self, view: TreeView, most: int, least: float = -math.inf) -> list[Proposal]:
        """At most so many, the likeliest of what follows any node, or another such proposal, of a log-probability of at
        least `least` from the root. The first token behind a node is as urgent as the node, so that chains go on;
        others are as urgent as they are likely."""
        paths, above = view.paths, scores(view)
        known = set(paths.values())
        tail = view.tokens[-self._longest :]
        # Of equally urgent ones the deepest first.
        urgent = [(-score, -len(paths[id_]), id_) for id_, score in above.items() if score >= least]
        heapq.heapify(urgent)
        left: dict[int, list[tuple[int, float]]] = {}  # of each node that was reached, the likeliest last
        proposals: list[Proposal] = []
        while urgent and len(proposals) < most:
            parent = heapq.heappop(urgent)[-1]
            path, score = paths[parent], above[parent]
            if parent not in left:
                left[parent] = self._after((*tail, *path)) if len(path) < _DEEPEST else []
            if not left[parent]:
                continue
            token, logp = left[parent].pop()
            if left[parent]:
                heapq.heappush(urgent, (-score - left[parent][-1][1], -len(path), parent))
            if (*path, token) in known or score + logp < least:
                continue
            proposals.append(Proposal(parent, token, logp))
            id_ = -len(proposals)
            paths[id_], above[id_] = (*path, token), score + logp
            heapq.heappush(urgent, (-above[id_], -len(paths[id_]), id_))
        return proposals

    def _after(self, tail: Sequence[int]) -> list[tuple[int, float]]:
        """The tokens that may come next, likeliest last, each with the best log-probability that a pool has for it."""
        found: dict[int, float] = {}
        for pool in self._pools:
            for token, record in pool.after(tail).items():
                found[token] = max(record.logp, found.get(token, -math.inf))
        return sorted(found.items(), key=lambda each: each[1])

    def _follow(self, view: TreeView) -> None:
        """Follows the sequence. At the positions where the target has chosen it shows what is worth how much."""
        known, tokens = len(self._tokens), view.tokens
        if tokens[:known] != self._tokens:
            known = common_prefix(self._tokens, tokens)
            self._rewind(known)
        of_the_target = range(view.prompt_length, view.verified_length)
        for position in range(known, len(tokens)):
            before, token = tokens[max(0, position - self._longest) : position], tokens[position]
            if position in of_the_target:
                for pool in self._pools:
                    pool.learn(before, token)
            # Only now, so that a text never finds its own end.
            self._text.append(token)
        self._tokens = tokens

    def _rewind(self, length: int) -> None:
        """The sequence is another one behind its first `length` tokens."""
        self._text.shorten(length)
