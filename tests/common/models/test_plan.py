"""What a pass says of its rows, and what is refused before it reaches a model."""

from dataclasses import replace

import pytest
import torch

from common.models.plan import PlanLimits, plan_pass
from common.models.segment import Segment

LIMITS = PlanLimits(capacity=2000, vocabulary=100, dtype=torch.float32, device=torch.device("cpu"))


def decode(past: int, first_slot: int) -> Segment:
    return Segment(tokens=[1], slots=[first_slot + past], parents=[-1], past_slots=range(first_slot, first_slot + past))


def test_positions_follow_past_and_depth() -> None:
    segment = Segment(tokens=[1, 2, 3], slots=[9, 10, 11, 12], parents=[-1, 0, 0, 2], past_slots=[4, 5], wanted=[2, 0])
    plan = plan_pass([decode(3, 20), segment], LIMITS)
    assert plan.positions.tolist() == [[3, 3, 3, 4]]
    assert plan.attention.written_slots.tolist() == [23, 10, 11, 12]
    assert plan.wanted_rows.tolist() == [3, 1]


def test_every_second_row_may_be_wanted() -> None:
    segment = Segment(tokens=[1] * 7, slots=range(7), parents=range(-1, 6), wanted=range(0, 7, 2))
    assert plan_pass([decode(3, 20), segment], LIMITS).wanted_rows.tolist() == [1, 3, 5, 7]


def test_slots_that_follow_one_another_are_written_as_ranges() -> None:
    first, second = (Segment(tokens=[1] * 5, slots=range(n, n + 5), parents=range(-1, 4)) for n in (10, 30))
    assert plan_pass([first, second], LIMITS).attention.written_ranges == [(0, 10, 5), (5, 30, 5)]


def test_scattered_slots_are_written_one_by_one() -> None:
    scattered = Segment(tokens=[1] * 5, slots=[3, 1, 9, 10, 20], parents=range(-1, 4))
    assert plan_pass([scattered], LIMITS).attention.written_ranges is None


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
