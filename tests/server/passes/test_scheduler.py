"""Each session's share of a pass: within the budget, fair, without starvation, short enough for those that decode."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from server.passes import scheduler
from server.passes.pass_cost import NO_WORK, PassCost, PassWork, PassWorks, sessions_work
from server.passes.scheduler import LEAST_CHUNK, MAX_SLOWDOWN, PROMPT_PART, Demand, PassPrices, schedule

DEMANDS = st.lists(st.builds(Demand, st.integers(1, 600), st.integers(0, 300), st.integers(0, 5)), max_size=12)


SHORT_PROMPTS = st.lists(st.builds(Demand, st.integers(2, 4), st.just(0), st.integers(0, 5)), min_size=8, max_size=12)
"""With a budget of a token or two for each, the oldest prompt's own part is all that it asks for."""


def share(demands: Sequence[Demand], budget: int) -> list[int]:
    """Nobody minds how long the pass takes."""
    return scheduler.divide_budget(demands, budget, lambda shares, nodes=NO_WORK: True)


@example(([Demand(2, 0, 0), *[Demand(50, 0, 0)] * 7], 8))
@given(st.tuples(DEMANDS, st.integers(1, 600)) | st.tuples(SHORT_PROMPTS, st.integers(8, 14)))
def test_the_budget_is_kept_and_nothing_is_wasted(case: tuple[list[Demand], int]) -> None:
    demands, budget = case
    shares = share(demands, budget)
    wishes = [demand.chain + demand.nodes for demand in demands]
    assert all(0 <= given <= wish for given, wish in zip(shares, wishes, strict=True))
    assert sum(shares) == min(budget, sum(wishes))


@given(DEMANDS, st.integers(-5, 0))
def test_without_a_budget_nobody_gets_a_token(demands: list[Demand], budget: int) -> None:
    costs = Costs(0.001, 0.001, 0.0, 0.0)
    assert share(demands, budget) == planned(demands, costs, budget) == [0] * len(demands)


@given(DEMANDS, st.integers(1, 60))
def test_everyone_is_served_before_long(demands: list[Demand], budget: int) -> None:
    """Demands that never shrink, served over and over."""
    served = [demand.last_pass for demand in demands]
    first = max(served, default=0) + 1
    for now in range(first, first + 4 * len(demands) + 8):
        current = [Demand(d.chain, d.nodes, s) for d, s in zip(demands, served, strict=True)]
        for index, tokens in enumerate(share(current, budget)):
            if tokens:
                served[index] = now
    assert all(turn >= first for turn in served)


def test_a_long_prompt_fills_what_decoding_leaves() -> None:
    assert share([Demand(1, 20, 0), Demand(5000, 0, 0), Demand(1, 0, 0)], 512) == [21, 490, 1]


def test_large_trees_are_cut_to_fair_shares_and_leave_room_for_a_prompt() -> None:
    assert share([Demand(1, 400, 0), Demand(1, 9, 0), Demand(900, 0, 0)], 400) == [290, 10, 100]


def test_nobody_gets_more_nodes_than_it_asks_for() -> None:
    """Though its tree has more: the device has no memory for them."""
    prices = PassPrices(lambda work: 0.01 + 0.001 * work.tokens, lambda work: 0.0, lambda tokens: True)
    assert schedule(
        [Demand(1, 2, 0), Demand(1, 30, 0)], 512, prices, lambda indices: [[1.0] * 30 for _ in indices]
    ) == [3, 31]


@pytest.mark.parametrize("measure", ["tokens", "pairs"])
@pytest.mark.parametrize(("dearer", "shares"), [(1.05, [6, 6]), (1.051, [1, 1])])
def test_nodes_are_free_where_the_pass_costs_a_twentieth_more_than_that_of_the_roots_alone(
    measure: str, dearer: float, shares: list[int]
) -> None:
    """What the two roots take is known to the token and to the pair: anything beyond is dearer."""
    of_roots = {"tokens": 2, "pairs": 100 + 30}[measure]

    def costs(work: PassWorks) -> Any:
        return np.where(getattr(work, measure) > of_roots, dearer, 1.0)

    prices = PassPrices(costs, lambda work: 0.0, lambda tokens: True)
    demands = [Demand(1, 5, 0, context=100), Demand(1, 5, 0, context=30)]
    assert schedule(demands, 512, prices, lambda indices: [[0.001] * 5 for _ in indices]) == shares


def test_a_short_prompt_reserves_no_more_than_it_needs() -> None:
    assert share([Demand(1, 400, 0), Demand(5, 0, 0)], 100) == [95, 5]


def test_a_prompt_moves_on_however_small_the_budget() -> None:
    demands = [Demand(1, 8, 2), Demand(1, 8, 3), Demand(900, 0, 4)]
    assert share(demands, 3) == [1, 1, 1]
    assert share(demands, 2) == [1, 0, 1]
    assert share(demands, 1) == [1, 0, 0]
    assert share([*demands[:2], Demand(900, 0, 1)], 1) == [0, 0, 1]


def test_who_was_served_longest_ago_goes_first() -> None:
    assert share([Demand(1, 8, 7), Demand(1, 8, 3), Demand(1, 8, 5)], 2) == [0, 1, 1]


# Chunks of prompts beside sessions that decode.


@dataclass(frozen=True)
class Costs:
    """Seconds: linear in what a pass computes."""

    per_pass: float
    per_token: float
    per_read: float
    per_score: float

    def __call__(self, work: PassWork | PassWorks) -> Any:
        return (
            self.per_pass + self.per_token * work.tokens + self.per_read * work.positions + self.per_score * work.pairs
        )


COSTS = st.builds(Costs, st.floats(0.001, 0.1), st.floats(0, 0.01), st.floats(0, 1e-5), st.floats(0, 1e-6))
CONTEXTS = st.integers(0, 10_000)
DECODING = st.lists(st.builds(Demand, st.just(1), st.integers(0, 40), st.integers(0, 5), context=CONTEXTS), max_size=8)
PROMPTS = st.lists(
    st.builds(
        Demand, st.integers(2, 9000), st.just(0), st.integers(0, 5), context=CONTEXTS, requested_at_s=st.floats(0, 9)
    ),
    min_size=1,
    max_size=6,
)


def certain(demands: Sequence[Demand], indices: Sequence[int]) -> list[list[float]]:
    return [[0.9] * demands[index].nodes for index in indices]


def planned(
    demands: Sequence[Demand], costs: Costs, budget: int = 512, decoding_later: Sequence[int] = ()
) -> list[int]:
    prices = PassPrices(costs, costs, is_measured=lambda tokens: True)
    return schedule(demands, budget, prices, lambda indices: certain(demands, indices), decoding_later)


def work_of(demands: Sequence[Demand], shares: Sequence[int]) -> PassWork:
    return sessions_work((tokens, demand.context) for tokens, demand in zip(shares, demands, strict=True))


@given(DECODING, PROMPTS, COSTS, st.lists(CONTEXTS, max_size=3), st.integers(2, 600))
def test_prompts_and_nodes_make_no_pass_longer_than_twice_one_of_roots(
    decoding: list[Demand], prompts: list[Demand], costs: Costs, decoding_later: list[int], budget: int
) -> None:
    demands = [*decoding, *prompts]
    shares = planned(demands, costs, budget, decoding_later)
    assert sum(shares) <= budget
    of_prompts = sum(shares[len(decoding) :])
    left = budget - sum(shares[: len(decoding)])
    assert of_prompts >= min(LEAST_CHUNK, left, sum(prompt.chain for prompt in prompts))
    if decoding or decoding_later:
        others = sessions_work((1, context) for context in decoding_later)
        alone = costs(work_of(decoding, [1] * len(decoding)) + others)
        seconds = costs(work_of(demands, shares))
        assert of_prompts <= LEAST_CHUNK or seconds <= MAX_SLOWDOWN * alone * (1 + 1e-9)
    else:
        assert of_prompts == min(budget, sum(prompt.chain for prompt in prompts))


@given(DECODING, PROMPTS, COSTS, CONTEXTS, CONTEXTS, st.integers(64, 512))
def test_nodes_take_at_most_a_part_of_what_prompts_would_get_without_them(
    decoding: list[Demand], prompts: list[Demand], costs: Costs, of_chats: int, of_prompts: int, budget: int
) -> None:
    decoding = [replace(each, context=of_chats) for each in decoding]
    prompts = [replace(each, context=of_prompts) for each in prompts]
    bare = [replace(each, nodes=0) for each in decoding]
    without = sum(planned([*bare, *prompts], costs, budget)[len(decoding) :])
    beside = sum(planned([*decoding, *prompts], costs, budget)[len(decoding) :])
    assert beside >= without - without // PROMPT_PART - len(prompts)


def test_nodes_and_prompts_share_one_bound() -> None:
    """Twelve tokens take 1.9 times as long as the two roots."""
    costs = Costs(0.01, 0.001, 0.0, 0.0)
    trees = [Demand(1, 12, 0)] * 2
    assert sum(planned(trees, costs)) == 26
    for prompt, of_prompt in ((5, 5), (5000, 8)):
        *decoding, found = planned([*trees, Demand(prompt, 0, 0)], costs)
        assert (sum(decoding), found) == (12 - of_prompt, of_prompt)


def test_a_bound_that_is_not_measured_is_tried_first() -> None:
    """All passes that were seen are wide, as those of the first prompts are; then the narrow one is known."""
    cost = PassCost()
    for tokens in (64, 118, 182):
        cost.observe(PassWork(tokens), 0.001 * tokens)
    demands = [*[Demand(1, 0, 0)] * 8, Demand(5000, 0, 0)]

    def prompt() -> int:
        prices = PassPrices(cost.estimates, cost.measured, cost.is_measured)
        return schedule(demands, 512, prices, lambda indices: [[] for _ in indices])[-1]

    assert prompt() == LEAST_CHUNK
    cost.observe(PassWork(8 + LEAST_CHUNK), 0.016)
    assert 20 <= 8 + prompt() <= 31


def test_the_group_below_a_root_is_verified_whatever_prompts_wait() -> None:
    costs = Costs(0.01, 0.01, 0.0, 0.0)
    assert planned([Demand(1, 12, 0, min_nodes=4), Demand(5000, 0, 0)], costs)[0] == 5


@given(st.integers(2, 8000), st.integers(1, 8), COSTS)
def test_a_prompt_beside_decoding_fills_what_it_may(chain: int, sessions: int, costs: Costs) -> None:
    demands = [*[Demand(1, 0, 0, context=100)] * sessions, Demand(chain, 0, 0, context=50)]
    *_, tokens = planned(demands, costs)
    more = [*[1] * sessions, tokens + 1]
    is_all = tokens in (chain, 512 - sessions)
    assert is_all or costs(work_of(demands, more)) > MAX_SLOWDOWN * costs(work_of(demands[:-1], [1] * sessions))


def test_a_chunk_shrinks_with_its_context_where_scores_take_time() -> None:
    costs = Costs(0.03, 0.0, 0.0, 1e-7)
    chunks = [
        planned([Demand(1, 0, 0), Demand(8000, 0, 0, context=context)], costs)[1] for context in (100, 2000, 8000)
    ]
    assert chunks == [511, 135, 33]


@given(DECODING, PROMPTS, COSTS)
def test_shares_of_prompts_are_max_min_fair_beside_the_oldest_ones_part(
    decoding: list[Demand], prompts: list[Demand], costs: Costs
) -> None:
    prompts = [replace(each, requested_at_s=each.requested_at_s + turn / 100) for turn, each in enumerate(prompts)]
    assume(len({each.requested_at_s for each in prompts}) == len(prompts))
    shares = planned([*decoding, *prompts], costs)[len(decoding) :]
    oldest = min(range(len(prompts)), key=lambda index: prompts[index].requested_at_s)
    if sum(shares) < PROMPT_PART * len(prompts):
        return
    own = min(prompts[oldest].chain, sum(shares) // PROMPT_PART)
    shares[oldest] -= own
    wishes = [prompt.chain for prompt in prompts]
    wishes[oldest] -= own
    least = min((tokens for tokens, wish in zip(shares, wishes, strict=True) if tokens < wish), default=None)
    assert least is None or max(shares) <= least + 1 + len(prompts)


SHORT = st.lists(st.builds(Demand, st.integers(2, 9), st.just(0), st.integers(0, 5)), min_size=1, max_size=12)


@settings(max_examples=40)
@example(
    waiting=[Demand(12, 0, 0), Demand(2, 0, 0), Demand(99, 0, 0, context=3342)],
    arrivals=[2, 17],
    sessions=1,
    costs=Costs(0.015625, 0.0, 5.498842261616905e-06, 0.0),
    budget=64,
)
@given(
    waiting=PROMPTS | SHORT,
    arrivals=st.lists(st.integers(2, 2000), min_size=1, max_size=5),
    sessions=st.integers(0, 6),
    costs=COSTS,
    budget=st.integers(64, 512),
)
def test_no_prompt_waits_longer_than_those_before_it_take_whatever_comes_later(
    waiting: list[Demand], arrivals: list[int], sessions: int, costs: Costs, budget: int
) -> None:
    """Another prompt comes with every pass, so that those that wait get ever more."""
    prompts = [replace(each, chain=2 + each.chain % 60, requested_at_s=turn / 100) for turn, each in enumerate(waiting)]
    decoding = [Demand(1, 8, 0, context=500)] * sessions
    ends_by = sum(prompt.chain for prompt in prompts) // (LEAST_CHUNK // PROMPT_PART) + len(prompts) + 1
    last = len(prompts)
    passes = 0
    while any(prompt.chain for prompt in prompts[:last]):
        passes += 1
        assert passes <= ends_by
        prompts.append(Demand(arrivals[passes % len(arrivals)], 0, passes, requested_at_s=float(passes)))
        live = [index for index, prompt in enumerate(prompts) if prompt.chain]
        shares = planned([*decoding, *(prompts[index] for index in live)], costs, budget)[sessions:]
        for index, tokens in zip(live, shares, strict=True):
            old = prompts[index]
            served = passes if tokens else old.last_pass
            prompts[index] = replace(old, chain=old.chain - tokens, context=old.context + tokens, last_pass=served)
