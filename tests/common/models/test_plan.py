"""How passes are split into groups, and what is refused before it reaches a model."""

from dataclasses import replace

import pytest
import torch

from common.models.plan import PlanLimits, plan_pass
from common.models.segment import Segment

LIMITS = PlanLimits(capacity=2000, vocabulary=100, dtype=torch.float32, device=torch.device("cpu"))


def decode(past: int, first_slot: int) -> Segment:
    return Segment(tokens=[1], slots=[first_slot + past], parents=[-1], past_slots=range(first_slot, first_slot + past))


def test_plain_decoding_of_equal_sessions_needs_no_mask_and_no_shuffle() -> None:
    plan = plan_pass([decode(10, 0), decode(10, 50)], LIMITS)
    assert [len(group.segments) for group in plan.attention.groups] == [2]
    assert plan.attention.groups[0].mask(3, None) is None
    assert plan.attention.groups[0].rows is None
    assert plan.attention.packed_order is None


def test_a_prefill_does_not_pad_the_decoding_beside_it() -> None:
    prefill = Segment(tokens=[2] * 500, slots=range(500), parents=range(-1, 499))
    plan = plan_pass([decode(90, 600), prefill, decode(100, 800)], LIMITS)
    assert [(len(group.segments), group.queries) for group in plan.attention.groups] == [(1, 500), (2, 1)]
    assert plan.attention.packed_order is not None
    assert plan.attention.packed_order.tolist() == [500, *range(500), 501]


def test_a_padded_part_as_large_as_the_pass_is_not_taken_for_it() -> None:
    long, short = (Segment(tokens=[1] * n, slots=range(9 * n, 10 * n), parents=range(-1, n - 1)) for n in (3, 2))
    plan = plan_pass([decode(1000, 500), short, long], LIMITS)
    padded = plan.attention.groups[0]
    assert padded.rows is not None
    assert padded.rows.tolist() == [1, 2, 1, 3, 4, 5]
    assert plan.attention.packed_order is not None
    assert plan.attention.packed_order.tolist() == [6, 0, 1, 3, 4, 5]


def test_positions_follow_past_and_depth() -> None:
    segment = Segment(tokens=[1, 2, 3], slots=[9, 10, 11, 12], parents=[-1, 0, 0, 2], past_slots=[4, 5], wanted=[2, 0])
    plan = plan_pass([decode(3, 20), segment], LIMITS)
    assert plan.positions.tolist() == [[3, 3, 3, 4]]
    assert plan.attention.written_slots.tolist() == [23, 10, 11, 12]
    assert plan.wanted_rows.tolist() == [3, 1]


def test_a_window_wider_than_the_text_shares_the_plain_mask() -> None:
    group = plan_pass([decode(10, 0)], LIMITS).attention.groups[0]
    assert group.mask(3, 11) is None
    narrow = group.mask(3, 4)
    assert narrow is not None
    assert torch.isfinite(narrow).sum(dim=-1).unique().tolist() == [4]


GOOD = Segment(tokens=[1, 2], slots=[3, 4], parents=[-1, 0], past_slots=[1], wanted=[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": [1, 100]}, "outside the vocabulary"),
        ({"tokens": [-1, 1]}, "outside the vocabulary"),
        ({"slots": [3, 2000]}, "outside a pool"),
        ({"slots": [3, 3]}, "share a slot"),
        ({"past_slots": [-1]}, "outside a pool"),
        ({"wanted": [2]}, "wanted row"),
        ({"wanted": [-1]}, "wanted row"),
        ({"parents": [-1, 1]}, "does not precede"),
    ],
)
def test_what_contradicts_itself_is_refused(change: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_pass([replace(GOOD, **change)], LIMITS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": []}, "at least one new token"),
        ({"slots": [3]}, "one of each per branch"),
        ({"tokens": [1, 2, 3]}, "only 2 slots"),
    ],
)
def test_lengths_that_disagree_are_refused(change: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(GOOD, **change)


def test_two_sessions_cannot_write_one_slot() -> None:
    with pytest.raises(ValueError, match="share a slot"):
        plan_pass([GOOD, replace(GOOD, slots=[7, 4])], LIMITS)


def test_an_empty_pass_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one segment"):
        plan_pass([], LIMITS)
