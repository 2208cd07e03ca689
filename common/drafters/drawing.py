"""Expansion under rules that need sampled siblings: which nodes get a group of children, and of how many.

The number of siblings depends on the probability of their parent alone, never on the sampled tokens: otherwise the
acceptance test, which assumes plain sampling, would not keep the target's distribution. Groups are never trimmed.
"""

import heapq
import random
from collections import Counter
from collections.abc import Mapping

from common.drafters.best_first import Expansion, scores
from common.drafters.calibration import blind_logps, drawn_logps
from common.protocol.messages import Draw
from common.protocol.views import Proposal, TreeView


def choose_groups(
    view: TreeView, offers: Mapping[int, Draw], expansion: Expansion, rng: random.Random
) -> list[Proposal]:
    """The next level: a group of siblings for each of the likeliest nodes that have none, sampled from its `Draw`.

    The room of the level is given best first, by the expected log-probability of one more sibling.
    """
    above = scores(view)
    parents = {node.parent for node in view.nodes}
    worth = [
        (above[parent] + logp, parent)
        for parent, draw in offers.items()
        if parent in above and parent not in parents and above[parent] >= expansion.least_logp
        for logp in blind_logps(min(expansion.children, len(draw.tokens)))
    ]
    counts = Counter(parent for _, parent in heapq.nlargest(expansion.room(view), worth))
    return [proposal for parent, count in counts.items() for proposal in _group(parent, offers[parent], count, rng)]


def _group(parent: int, draw: Draw, count: int, rng: random.Random) -> list[Proposal]:
    """`count` siblings, sampled one after another without replacement."""
    left = dict(zip(draw.tokens, draw.weights, strict=True))
    tokens, shares = [], []
    for _ in range(count):
        token = rng.choices(list(left), list(left.values()))[0]
        tokens.append(token)
        shares.append(left[token] / sum(left.values()))
        del left[token]
    return [Proposal(parent, token, logp, draw) for token, logp in zip(tokens, drawn_logps(shares), strict=True)]
