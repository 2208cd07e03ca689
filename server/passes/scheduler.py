"""The scheduler: which sessions take part in the next pass, and with how many tokens each. The verify budget is part
of it: where a wider pass takes longer, only the nodes that add more tokens than time take part.

Pure arithmetic. It may not know sessions, slots, trees or time, but what each session asks for, how likely its nodes
are committed, when it was last served, and what passes cost.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import accumulate, islice, repeat

PROMPT_PART = 4
"""Decoding sessions leave unprocessed prompts one part in this many of the budget, so that neither starves the
other."""

_FREE = 1.05
"""Nodes are free while the pass costs at most 5% more than it costs without them."""

_STEP_TOKENS = 8  # between two sizes that are weighed
_MIN_COST_S = 1e-9

Cost = Callable[[int], float]
"""Seconds of a pass over so many tokens."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one due session asks for, in tokens. `served` is the number of the last pass that it took part in;
    `min_nodes` are verified whatever they cost."""

    chain: int
    nodes: int
    served: int
    min_nodes: int = 0

    @property
    def tokens(self) -> int:
        return self.chain + self.nodes

    @property
    def decodes(self) -> bool:
        """Whether only its root is unprocessed: no prompt is left."""
        return self.chain == 1


def schedule(
    demands: Sequence[Demand], budget: int, cost: Cost, probabilities: Callable[[int], Sequence[float]]
) -> list[int]:
    """The tokens that each demand gets of a pass of at most `budget` tokens; 0 where it waits for another pass.

    `probabilities(i)`: how likely each node of demand i is committed, likeliest first; only asked where nodes are not
    free.
    """
    chains = sum(demand.chain for demand in demands)
    if cost(min(budget, sum(demand.tokens for demand in demands))) <= _FREE * cost(chains):
        return share(demands, budget)
    decoding = [index for index, demand in enumerate(demands) if demand.decodes]
    counts = node_budgets(
        [probabilities(index) for index in decoding],
        roots=len(decoding),
        other_tokens=min(budget, chains) - len(decoding),
        max_nodes=max(0, budget - chains),
        cost=cost,
    )
    budgeted = list(demands)
    for index, count in zip(decoding, counts, strict=True):
        budgeted[index] = replace(demands[index], nodes=max(count, demands[index].min_nodes))
    return share(budgeted, budget)


def share(demands: Sequence[Demand], budget: int) -> list[int]:
    """The tokens that each demand gets of a pass of `budget` tokens; 0 where it waits for another pass.

    Decoding goes first, root and nodes, up to what is left for prompts; prompts fill the rest. Within either kind
    shares are max-min fair, and where there is not even one token for each, those served longest ago go first. A
    single token cannot be divided between the kinds: it goes to whoever was served longest ago.
    """
    order = sorted(range(len(demands)), key=lambda index: demands[index].served)
    if budget == 1:
        return [int(index in order[:1]) for index in range(len(demands))]
    decoding = [index for index in order if demands[index].decodes]
    prompts = [index for index in order if not demands[index].decodes]
    wishes = [demand.tokens for demand in demands]
    reserved = min(sum(wishes[index] for index in prompts), max(1, budget // PROMPT_PART))

    for_decoding = _fair([wishes[index] for index in decoding], budget - reserved)
    for_prompts = _fair([wishes[index] for index in prompts], budget - sum(for_decoding))
    shares = dict(zip([*decoding, *prompts], [*for_decoding, *for_prompts], strict=True))
    return [shares[index] for index in range(len(demands))]


def max_decoding_sessions(budget: int) -> int:
    """The sessions that can decode in every pass, prompts or no prompts."""
    return max(1, budget - budget // PROMPT_PART)


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


def _fair(wishes: Sequence[int], budget: int) -> list[int]:
    """Max-min fair shares of `budget`: nobody gets more than it wishes while another could use it."""
    if budget < len(wishes):
        return [1] * budget + [0] * (len(wishes) - budget)
    shares = [0] * len(wishes)
    waiting = len(wishes)
    for index in sorted(range(len(wishes)), key=wishes.__getitem__):
        shares[index] = min(wishes[index], budget // waiting)
        budget -= shares[index]
        waiting -= 1
    return shares


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
