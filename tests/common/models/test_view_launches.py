"""Pieces cover what rows see, once, and are as many as keep a GPU busy."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.models import view_launches
from common.models.attention_layout import View
from common.models.view_launches import Launch, launches_over

KV_HEADS, SHARED = 8, 4


def view(first_row: int, rows: int, slot: int, slots: int) -> View:
    return View(slice(first_row, first_row + rows), slice(slot, slot + slots))


def seen(launch: Launch) -> Counter[tuple[int, int]]:
    """How often each row sees each slot."""
    found: Counter[tuple[int, int]] = Counter()
    for (first, stop), (start, end) in zip(
        pairwise(launch.query_offsets.tolist()), pairwise(launch.key_offsets.tolist()), strict=True
    ):
        assert stop - first <= launch.most_queries
        assert first == stop or end - start <= launch.most_keys
        found.update((row, slot) for row in launch.rows_T[first:stop].tolist() for slot in range(start, end))
    return found


@st.composite
def views_of_sessions(draw: st.DrawFn) -> list[View]:
    """Each session has rows of its own and views of ranges that are apart, which others may have too."""
    views, row = [], 0
    for _ in range(draw(st.integers(1, 5))):
        rows = draw(st.integers(1, 4))
        bounds = sorted(draw(st.sets(st.integers(0, 60), min_size=2, max_size=6)))
        views += [view(row, rows, start, stop - start) for start, stop in list(pairwise(bounds))[::2]]
        row += rows
    return views


@given(
    views=views_of_sessions(), shortest=st.sampled_from([1, 4, 16, 64]), most_results=st.sampled_from([1, 20, 8_192])
)
def test_each_row_sees_each_slot_of_its_views_once(views: list[View], shortest: int, most_results: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_launches, "_SHORTEST_PIECE", shortest)
        patch.setattr(view_launches, "_MOST_RESULTS", most_results)
        launches = launches_over(views, KV_HEADS, SHARED)
    expected = Counter(
        (row, slot)
        for each in views
        for row in range(each.rows.start, each.rows.stop)
        for slot in range(each.slots.start, each.slots.stop)
    )
    assert sum(map(seen, launches), Counter()) == expected
    for launch in launches:
        assert launch.most_pieces == 1 or launch.most_pieces * max(each.rows.stop for each in views) <= most_results
        offsets = launch.key_offsets.tolist()
        assert offsets == sorted(offsets)
        index, has_piece = launch.piece_index(max(expected)[0] + 1, launch.most_pieces)
        found = sorted(index[has_piece].tolist())
        assert found == list(range(len(launch.rows_T))), "each result is taken once"
        rows = has_piece.nonzero()[1]
        assert launch.rows_T[index[has_piece]].tolist() == rows.tolist()


def test_a_long_context_is_cut_until_a_gpu_is_busy() -> None:
    [alone] = launches_over([view(0, 1, 64, 32_768)], KV_HEADS, SHARED)
    assert alone.most_pieces * KV_HEADS == view_launches._BLOCKS
    [short] = launches_over([view(0, 1, 64, 700)], KV_HEADS, SHARED)
    assert (short.most_pieces, short.most_keys) == (3, 256)


@pytest.mark.parametrize(("sessions", "rows"), [(64, 1), (4, 128)], ids=["many sessions", "many rows"])
def test_where_there_are_blocks_enough_nothing_is_cut(sessions: int, rows: int) -> None:
    views = [view(rows * each, rows, 4_096 * each, 4_096) for each in range(sessions)]
    [launch] = launches_over(views, KV_HEADS, SHARED)
    assert launch.most_pieces == 1


def test_sessions_that_share_a_prefix_share_its_pieces() -> None:
    """Its keys are read once for all of them."""
    prefix = [view(each, 1, 0, 8_192 + 500 * each) for each in range(3)]
    launches = launches_over(prefix, KV_HEADS, SHARED)
    [shared, *others] = launches
    assert shared.most_queries == 3
    assert sum(len(each.rows_T) for each in others) < len(shared.rows_T)


def test_sessions_that_share_a_prefix_keep_as_much_of_a_gpu_busy_as_one_of_as_many_rows() -> None:
    [shared] = launches_over([view(row, 1, 0, 8_192) for row in range(64)], KV_HEADS, SHARED)
    [one] = launches_over([view(0, 64, 0, 8_192)], KV_HEADS, SHARED)
    assert shared.key_offsets.tolist() == one.key_offsets.tolist()
    assert shared.most_pieces * KV_HEADS * 64 * SHARED // view_launches._TILE == view_launches._BLOCKS


TREES = [view(1 + 90 * each, 90, 200_000 + 1_000 * each, 512) for each in range(13)]


@pytest.mark.parametrize(
    "views",
    [
        [view(0, 1, 0, 131_072), *TREES],
        [*(view(0, 1, 100 * each, 80) for each in range(400)), *TREES],
        [view(0, 2_000, 100 * each, 80) for each in range(400)],
    ],
    ids=["one long context", "one in many ranges", "a prompt in many ranges"],
)
def test_no_launch_has_many_rows_and_many_pieces(views: list[View]) -> None:
    """Each row has a place for each piece of the row that has most: these were up to 800,000."""
    launches = launches_over(views, KV_HEADS, SHARED)
    rows = max(each.rows.stop for each in views)
    assert max(each.most_pieces for each in launches) * rows <= view_launches._MOST_RESULTS
    assert len(launches) <= 400 / 4


def test_a_single_view_takes_one_launch() -> None:
    """Nothing has to be merged then."""
    for rows in (1, 96, 1_280, 20_000):
        assert len(launches_over([view(0, rows, 64, 131_072)], 1, 1)) == 1
