"""Each session's share of a pass: within the budget, fair, and without starvation."""

from hypothesis import given
from hypothesis import strategies as st

from server.passes.scheduler import Demand, share

DEMANDS = st.lists(st.builds(Demand, st.integers(1, 600), st.integers(0, 300), st.integers(0, 5)), max_size=12)


@given(DEMANDS, st.integers(1, 600))
def test_the_budget_is_kept_and_nothing_is_wasted(demands: list[Demand], budget: int) -> None:
    shares = share(demands, budget)
    wishes = [demand.chain + demand.nodes for demand in demands]
    assert all(0 <= given <= wish for given, wish in zip(shares, wishes, strict=True))
    assert sum(shares) == min(budget, sum(wishes))


@given(DEMANDS, st.integers(1, 60))
def test_everyone_is_served_before_long(demands: list[Demand], budget: int) -> None:
    """Demands that never shrink, served over and over."""
    served = [demand.served for demand in demands]
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
