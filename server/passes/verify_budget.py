"""The verify budget: how many nodes of each session a pass verifies. Where a wider pass takes longer, only the nodes
that add more tokens than time.

Pure. It may not know slots or streams, nor how tokens are shared out among sessions (`scheduler.py`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import merge
from itertools import accumulate, islice, repeat

from common.protocol.selection import commit_probabilities
from common.protocol.tree import TokenTree
from server.fault_isolation import FaultIsolation
from server.passes.scheduler import Demand
from server.sessions.entry import SessionEntry

Cost = Callable[[int], float]
"""Seconds of a pass over so many tokens."""

_FREE = 1.05
"""Nodes are free while the pass costs at most 5% more than it costs without them."""

_STEP_TOKENS = 8  # between two sizes that are weighed
_MIN_COST_S = 1e-9


def budget_demands(
    due: Sequence[SessionEntry], budget: int, cost: Cost, isolation: FaultIsolation[SessionEntry]
) -> list[Demand]:
    """What each due session asks of a pass of at most `budget` tokens, with the nodes that are worth their time."""
    demands = [entry.demand for entry in due]
    chains = sum(demand.chain for demand in demands)
    if cost(min(budget, sum(demand.tokens for demand in demands))) <= _FREE * cost(chains):
        return demands
    decoding = [place for place, demand in enumerate(demands) if demand.decodes]
    probabilities: list[list[float]] = [[] for _ in decoding]  # stays empty for a session that cannot be weighed
    for own, place in zip(probabilities, decoding, strict=True):
        session = due[place].session
        with isolation(due[place]):
            own += commit_probabilities(session.tree, session.acceptance.max_acceptance)
    counts = node_budgets(
        probabilities,
        roots=len(decoding),
        other_tokens=min(budget, chains) - len(decoding),
        max_nodes=max(0, budget - chains),
        cost=cost,
    )
    for place, count in zip(decoding, counts, strict=True):
        demands[place] = replace(demands[place], nodes=max(count, _min_nodes(due[place].session.tree)))
    return demands


def _min_nodes(tree: TokenTree) -> int:
    """A group below the root is verified by the first pass that can, whatever it costs: whether it is verified must
    not depend on what was drawn for it."""
    return len(tree.root.children) if tree.grouped else 0


def node_budgets(
    probabilities: Sequence[Sequence[float]], roots: int, other_tokens: int, max_nodes: int, cost: Cost
) -> list[int]:
    """How many nodes of each session to verify, so that the pass commits most tokens a second.

    `probabilities`: for each session, how likely each of its nodes is committed, likeliest first. The pass also has
    `roots` of decoding sessions, each good for one token, and `other_tokens`; `max_nodes` nodes fit.

    Probabilities are a client's own claim, so each session is capped at twice its even share while others want theirs.
    What exceeds the cap is weighed in a second round, with the room that is left when every capped share is set aside.
    Within its share a false claim still raises the bar for the nodes of others; above its share it does not.
    """
    # Divide by n + 1, so that neither of two sessions gets everything.
    cap = math.ceil(2 * max_nodes / (len(probabilities) + 1))
    shares = _likeliest([own[:cap] for own in probabilities], max_nodes)
    above = _likeliest([own[cap:] for own in probabilities], max_nodes - len(shares))
    counts = [0] * len(probabilities)
    gain, tokens = float(roots), roots + other_tokens
    for ranked in (shares, above):
        gains = list(accumulate((probability for probability, _ in ranked), initial=gain))
        taken = _best_count(gains, tokens, cost)
        gain, tokens = gains[taken], tokens + taken
        for _, session in ranked[:taken]:
            counts[session] += 1
    return counts


def _likeliest(probabilities: Sequence[Sequence[float]], max_nodes: int) -> list[tuple[float, int]]:
    """The likeliest nodes of all sessions, each as its probability and the index of its session."""
    each_session = [zip(own, repeat(session)) for session, own in enumerate(probabilities)]
    return list(islice(merge(*each_session, key=lambda each: each[0], reverse=True), max(0, max_nodes)))


def _best_count(gains: Sequence[float], tokens: int, cost: Cost) -> int:
    """The number of nodes, on top of `tokens` others, with most tokens per second; the largest of equals. `gains[n]`
    are the tokens that a pass with n nodes commits."""
    last = len(gains) - 1
    sizes = [*range(0, last, _STEP_TOKENS), last]
    best: int = max(sizes, key=lambda size: (gains[size] / max(cost(tokens + size), _MIN_COST_S), size))
    return best
