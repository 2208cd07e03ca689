"""The scheduler: which sessions take part in the next pass, and with how many tokens each. Both bounds on a pass are
part of it: drafted nodes take part where they add more tokens than time (the verify budget), and prompts as far as
sessions that decode can wait for the pass (chunked prefill).

Pure arithmetic. It may not know sessions, slots, trees or time, but what each session asks for, how likely its nodes
are committed, when it was last served, and what passes cost.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from server.passes.pass_cost import NO_WORK, PassWork, PassWorks, sessions_work

PROMPT_PART = 4
"""Decoding sessions leave unprocessed prompts one part in this many of the budget, so that neither starves the other;
and of what prompts get, the oldest has one part in this many for itself."""

LEAST_CHUNK = 8
"""Tokens that prompts get of every pass, however long it takes, where the budget has as many for them."""

MAX_SLOWDOWN = 1.9
"""Prompts and nodes together make a pass at most this many times as long as decoding would without prompts, and without
nodes that need not be verified: twice, with room for the error of estimates (Agrawal et al. 2024, Sarathi-Serve, bound
the tokens of a pass; here it is the measured time). Where no prompt waits, nodes are not bound by it."""

_FREE = 1.05
"""Nodes are free while the pass costs at most 5% more than it costs without them."""

Probabilities = Sequence[float] | NDArray[np.float64]

_STEP_TOKENS = 8  # between two sizes that are weighed
_MIN_COST_S = 1e-9

Cost = Callable[[PassWork], float]
"""Seconds of a pass that computes so much."""

Costs = Callable[[PassWorks], NDArray[np.float64]]
"""Seconds of each of several passes."""


class PassBound(Protocol):
    def __call__(self, shares: Sequence[int], nodes: PassWork = NO_WORK, /) -> bool:
        """Whether those that decode can wait for a pass with these shares, and so many nodes besides."""


@dataclass(frozen=True, slots=True)
class PassPrices:
    """optimistic: low for sizes that were not seen for a while, so that wider passes are tried; it chooses nodes.
    measured: what a pass cost when it was last like that; it bounds chunks, because others wait for them. is_measured:
    whether it knows passes of so few tokens."""

    optimistic: Costs
    measured: Cost
    is_measured: Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Demand:
    """What one due session asks for, in tokens after `context` positions. `last_pass` is the number of the last pass
    that it took part in; `min_nodes` are verified whatever they cost."""

    chain: int
    nodes: int
    last_pass: int
    min_nodes: int = 0
    context: int = 0
    requested_at_s: float = 0.0

    @property
    def tokens(self) -> int:
        return self.chain + self.nodes

    def with_nodes(self, nodes: int) -> "Demand":
        return replace(self, nodes=nodes)

    @property
    def decodes(self) -> bool:
        """Whether only its root is unprocessed: no prompt is left."""
        return self.chain == 1


def schedule(
    demands: Sequence[Demand],
    budget: int,
    prices: PassPrices,
    probabilities: Callable[[Sequence[int]], Sequence[Probabilities]],
    decoding_later: Collection[int] = (),
) -> list[int]:
    """The tokens that each demand gets of a pass of at most `budget` tokens; 0 where it waits for another pass.

    `probabilities`: how likely each node of these demands is committed, likeliest first; only asked where nodes are not
    free or too many beside prompts. `decoding_later`: the contexts of sessions that decode and are not due now; they
    will wait for this pass.

    Where prompts get `n` tokens of each pass or more, at least `LEAST_CHUNK` if the budget has them, a prompt's first
    token comes within P / (n // PROMPT_PART) + k + 1 passes, whatever comes later: P are the tokens of the k prompts
    that came no later than it, its own included.
    """
    bare = sessions_work((1 + each.min_nodes, each.context) for each in demands if each.decodes)
    decoding = bare + sessions_work((1, context) for context in decoding_later)
    most_s = math.inf
    if decoding.tokens:
        # A pass of least chunks comes first, by which the time of a narrow one is known. Were a bound taken from wider
        # ones, passes would stay wide and no narrow one would ever be measured.
        is_known = prices.is_measured(bare.tokens + LEAST_CHUNK)
        most_s = MAX_SLOWDOWN * prices.measured(decoding) if is_known else 0.0

    def is_short(shares: Sequence[int], nodes: PassWork = NO_WORK) -> bool:
        parts = sessions_work((tokens, demand.context) for tokens, demand in zip(shares, demands, strict=True))
        return prices.measured(parts + nodes) <= most_s

    room = _room_for_nodes(demands, budget, is_short)
    return divide_budget(_within_verify_budget(demands, room, prices.optimistic, probabilities), budget, is_short)


def divide_budget(demands: Sequence[Demand], budget: int, is_short: PassBound) -> list[int]:
    """The tokens that each demand gets of a pass of `budget` tokens; 0 where it waits for another pass.

    Decoding goes first, root and nodes, up to what is left for prompts; prompts fill the rest, as far as the pass
    `is_short`, which fewer tokens never undo. Within either kind shares are max-min fair, beside the oldest prompt's
    own part, and where there is not even one token for each, those served longest ago go first. A single token cannot
    be divided between the kinds: it goes to whoever was served longest ago. With a budget of 0 or less nobody gets any.
    """
    if budget <= 0:
        return [0] * len(demands)
    order = sorted(range(len(demands)), key=lambda index: demands[index].last_pass)
    if budget == 1:
        return [int(index in order[:1]) for index in range(len(demands))]
    decoding = [index for index in order if demands[index].decodes]
    prompts = [index for index in order if not demands[index].decodes]
    shares = [0] * len(demands)
    wishes = [demands[index].tokens for index in decoding]
    for index, tokens in zip(decoding, _fair(wishes, budget - _reserved(demands, budget)), strict=True):
        shares[index] = tokens
    if not prompts:
        return shares

    def with_prompts(tokens: int) -> list[int]:
        shared = list(shares)
        for index, each in zip(prompts, _prompt_shares([demands[index] for index in prompts], tokens), strict=True):
            shared[index] = each
        return shared

    most = min(budget - sum(shares), sum(demands[index].tokens for index in prompts))
    least = min(LEAST_CHUNK, most)
    longer = range(least + 1, most + 1)
    # The first of these that is too long comes after all that are not.
    return with_prompts(least + bisect_right(longer, False, key=lambda tokens: not is_short(with_prompts(tokens))))


def max_decoding_sessions(budget: int) -> int:
    """The sessions that can decode in every pass, prompts or no prompts."""
    return max(1, budget - budget // PROMPT_PART)


def node_budgets(
    probabilities: Sequence[Probabilities], contexts: Sequence[int], max_nodes: int, costs: Costs
) -> list[int]:
    """How many nodes of each decoding session to verify, so that the pass commits most tokens a second.

    `probabilities`: for each session, how likely each of its nodes is committed, likeliest first. Each session also has
    a root behind its context of so many positions, good for one token; `max_nodes` nodes fit.

    Probabilities are a client's own claim, so each session is capped at twice its even share while others want theirs.
    What exceeds the cap is weighed in a second round, with the room that is left when every capped share is set aside.
    Within its share a false claim still raises the bar for the nodes of others; above its share it does not.
    """
    # Divide by n + 1, so that neither of two sessions gets everything.
    cap = math.ceil(2 * max_nodes / (len(probabilities) + 1))
    counts = np.zeros(len(probabilities), dtype=np.int64)
    gain, work = float(len(contexts)), sessions_work((1, context) for context in contexts)
    pairs_of_a_node = np.array(contexts, dtype=np.int64)
    room = max(0, max_nodes)
    for part in (slice(cap), slice(cap, None)):
        gains, sessions = _likeliest([own[part] for own in probabilities], room)
        room -= len(sessions)
        gains = np.cumsum([gain, *gains])
        pairs = np.cumsum([work.pairs, *pairs_of_a_node[sessions]])
        taken = _best_count(gains, pairs, work, costs)
        gain, work = float(gains[taken]), PassWork(work.tokens + taken, work.positions, int(pairs[taken]))
        counts += np.bincount(sessions[:taken], minlength=len(counts))
    return [int(count) for count in counts]


def _room_for_nodes(demands: Sequence[Demand], budget: int, is_short: PassBound) -> int:
    """How many nodes fit into the budget. Where prompts wait, they fit into a pass that `is_short` and has all but one
    part in `PROMPT_PART` of the tokens that prompts would get without nodes."""
    nodes, roots = _nodes_work(demands), sum(each.decodes for each in demands)
    room = max(0, budget - _reserved(demands, budget) - roots)
    if not (nodes.tokens and room) or roots == len(demands):
        return room
    bare = divide_budget([each.with_nodes(0) for each in demands], budget, is_short)
    of_prompts = sum(tokens for tokens, each in zip(bare, demands, strict=True) if not each.decodes)
    given = max(0, min(of_prompts // PROMPT_PART, of_prompts - LEAST_CHUNK))
    kept = [
        tokens if each.decodes else tokens - tokens * given // max(1, of_prompts)
        for tokens, each in zip(bare, demands, strict=True)
    ]
    counts = range(1, 1 + min(nodes.tokens, room, budget - sum(kept)))
    return bisect_right(counts, False, key=lambda count: not is_short(kept, _part_of(nodes, count)))


def _nodes_work(demands: Sequence[Demand]) -> PassWork:
    return replace(sessions_work((each.nodes, each.context) for each in demands if each.decodes), positions=0)


def _part_of(nodes: PassWork, count: int) -> PassWork:
    """That of `count` of the nodes."""
    return PassWork(count, 0, nodes.pairs * count // nodes.tokens) if count else NO_WORK


def _within_verify_budget(
    demands: Sequence[Demand],
    room: int,
    costs: Costs,
    probabilities: Callable[[Sequence[int]], Sequence[Probabilities]],
) -> list[Demand]:
    """The demands, with at most `room` nodes where prompts wait, and fewer where these are not free in a pass that only
    decodes."""
    decoding = [index for index, demand in enumerate(demands) if demand.decodes]
    roots = sessions_work((1, demands[index].context) for index in decoding)
    nodes = _nodes_work(demands)
    # More nodes than there is room for are cut to fair shares; not beside prompts, which have most of the room.
    are_cut = len(decoding) == len(demands) or nodes.tokens <= room
    most = roots + _part_of(nodes, min(nodes.tokens, room))
    sizes, pairs = np.array([roots.tokens, most.tokens]), np.array([roots.pairs, most.pairs])
    without, with_nodes = costs(PassWorks(sizes, roots.positions, pairs)).tolist()
    if are_cut and with_nodes <= _FREE * without:
        return list(demands)
    wanted = [own[: demands[index].nodes] for index, own in zip(decoding, probabilities(decoding), strict=True)]
    counts = node_budgets(wanted, [demands[index].context for index in decoding], room, costs)
    budgeted = list(demands)
    for index, count in zip(decoding, counts, strict=True):
        budgeted[index] = demands[index].with_nodes(max(count, demands[index].min_nodes))
    return budgeted


def _reserved(demands: Sequence[Demand], budget: int) -> int:
    """Tokens of the budget that decoding leaves for prompts."""
    return min(sum(each.tokens for each in demands if not each.decodes), max(1, budget // PROMPT_PART))


def _prompt_shares(prompts: Sequence[Demand], tokens: int) -> list[int]:
    """The oldest prompt's own part, and of the rest a max-min fair share for each."""
    oldest = min(range(len(prompts)), key=lambda index: prompts[index].requested_at_s)
    own = min(prompts[oldest].tokens, tokens // PROMPT_PART)
    wishes = [prompt.tokens for prompt in prompts]
    wishes[oldest] -= own
    shares = _fair(wishes, tokens - own)
    shares[oldest] += own
    return shares


def _fair(wishes: Sequence[int], budget: int) -> list[int]:
    """Max-min fair shares of `budget`, never more than a wish; with less than a token for each, the first get one."""
    shares = [0] * len(wishes)
    wishing = [index for index, wish in enumerate(wishes) if wish]
    waiting = len(wishing)
    if budget < waiting:
        for index in wishing[:budget]:
            shares[index] = 1
        return shares
    for index in sorted(wishing, key=wishes.__getitem__):
        shares[index] = min(wishes[index], budget // waiting)
        budget -= shares[index]
        waiting -= 1
    return shares


def _likeliest(probabilities: Sequence[Probabilities], max_nodes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The likeliest nodes of all sessions, at most so many: their probabilities and the indices of their sessions."""
    sizes = [len(own) for own in probabilities]
    every = np.concatenate([np.asarray(own, dtype=np.float64) for own in probabilities]) if sizes else np.empty(0)
    order = np.argsort(-every, kind="stable")[:max_nodes]
    return every[order], np.repeat(np.arange(len(sizes)), sizes)[order]


def _best_count(gains: NDArray[np.float64], pairs: NDArray[np.int64], bare: PassWork, costs: Costs) -> int:
    """The number of nodes with most tokens per second; the largest of equals. A pass with n nodes beside the `bare`
    work commits `gains[n]` tokens and has `pairs[n]` query-key pairs."""
    last = len(gains) - 1
    sizes = np.array([*range(0, last, _STEP_TOKENS), last])
    seconds = np.maximum(costs(PassWorks(bare.tokens + sizes, bare.positions, pairs[sizes])), _MIN_COST_S)
    speeds = gains[sizes] / seconds
    return int(sizes[np.flatnonzero(speeds == speeds.max())[-1]])
