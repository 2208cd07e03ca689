"""What is attended to on views, what is gathered, and which segments share a call."""

import torch

from common.models.attention_layout import Layout, lay_out
from common.models.plan import AttentionPlan, PlanLimits, plan_pass
from common.models.segment import Segment

LIMITS = PlanLimits(capacity=4000, vocabulary=100, dtype=torch.float32, device=torch.device("cpu"))


def decode(past: int, first_slot: int) -> Segment:
    return Segment(tokens=[1], slots=[first_slot + past], parents=[-1], past_slots=range(first_slot, first_slot + past))


def planned(*segments: Segment) -> AttentionPlan:
    return plan_pass(segments, LIMITS).attention


def laid_out(*segments: Segment, window: int | None = None, chunk: int | None = None, shortest: int = 64) -> Layout:
    return planned(*segments).once(lay_out, window, chunk, shortest)


def test_a_contiguous_context_is_one_view_and_the_new_token_belongs_to_it() -> None:
    layout = laid_out(decode(100, 7))
    (view,) = layout.views
    assert (view.rows, view.slots) == (slice(0, 1), slice(7, 108))
    assert layout.groups == []


def test_a_tree_is_gathered_beside_the_view_of_its_past() -> None:
    tree = Segment(tokens=[1] * 3, slots=[500, 501, 502], parents=[-1, 0, 0], past_slots=range(200, 300))
    layout = laid_out(decode(10, 0), tree)
    assert [(view.rows, view.slots) for view in layout.views] == [(slice(1, 4), slice(200, 300))]
    gathered = {slot for group in layout.groups for slot in group.context_slots.tolist()}
    assert gathered == {*range(11), 500, 501, 502}


def test_short_ranges_of_a_context_are_gathered() -> None:
    scattered = [*range(100, 170), 5, 6, 300, *range(400, 470)]
    layout = laid_out(Segment(tokens=[1], slots=[470], parents=[-1], past_slots=scattered))
    assert [view.slots for view in layout.views] == [slice(100, 170), slice(400, 471)]
    assert layout.groups[0].context_slots.tolist() == [5, 6, 300]


def test_a_window_cuts_the_view_and_its_edge_is_masked() -> None:
    """Rows at positions 200, 201 and 202 see from 101, 102 and 103 on."""
    chain = Segment(tokens=[1] * 3, slots=range(200, 203), parents=range(-1, 2), past_slots=range(200))
    layout = laid_out(chain, window=100)
    assert [view.slots for view in layout.views] == [slice(103, 200)]
    (group,) = layout.groups
    assert group.context_slots.tolist()[:5] == [101, 102, 200, 201, 202]
    mask = group.mask(1)
    assert mask is not None
    assert torch.isfinite(mask[0, 0]).int()[:, :5].tolist() == [[1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]


def test_a_window_or_chunk_wider_than_the_text_is_none() -> None:
    plan = planned(decode(100, 0))
    assert plan.once(lay_out, 101, 200, 64) is plan.once(lay_out, None, None, 64)
    assert plan.once(lay_out, 100, None, 64) is not plan.once(lay_out, None, None, 64)


def test_plain_decoding_of_equal_short_sessions_needs_no_mask_and_no_shuffle() -> None:
    (group,) = laid_out(decode(10, 0), decode(10, 50)).groups
    assert len(group.members) == 2
    assert group.mask(3) is None
    assert group.rows is None


def test_a_prefill_does_not_pad_the_decoding_beside_it() -> None:
    prefill = Segment(tokens=[2] * 500, slots=range(500), parents=range(-1, 499))
    layout = laid_out(decode(40, 600), prefill, decode(50, 800))
    assert [(len(group.members), group.queries) for group in layout.groups] == [(1, 500), (2, 1)]
    rows = [group.rows.tolist() for group in layout.groups if group.rows is not None]
    assert rows == [[*range(1, 501)], [0, 501]]


def test_padding_is_told_from_rows() -> None:
    long, short = (Segment(tokens=[1] * n, slots=range(9 * n, 10 * n), parents=range(-1, n - 1)) for n in (3, 2))
    (group,) = laid_out(short, long).groups
    assert group.rows is not None
    assert group.unpadded is not None
    assert group.rows.tolist() == [0, 1, 0, 2, 3, 4]
    assert group.rows[group.unpadded].tolist() == [0, 1, 2, 3, 4]
