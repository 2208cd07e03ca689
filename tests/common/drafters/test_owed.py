"""Draft state that a drafter is owed, on drafters that do nothing."""

from hypothesis import given
from hypothesis import strategies as st

from common.drafters.owed import OwedStates
from common.protocol.messages import State


class Drafter:
    """Two that differ."""


def frame(start: int, count: int, kind: str = "lsa", mark: bytes = b"") -> State:
    return State(1, start, count, kind, "int8", (count, 1), mark)


def owed_states() -> tuple[OwedStates, Drafter, Drafter]:
    near, far = Drafter(), Drafter()
    return OwedStates([near, far]), near, far


def test_each_drafter_gets_every_frame_once_and_in_order():
    owed, near, far = owed_states()
    first, second = frame(0, 4), frame(4, 2)
    owed.add([first])
    assert owed.take(near) == [first]
    owed.add([second])
    assert owed.take(near) == [second]
    assert owed.take(near) == []
    assert owed.take(far) == [first, second]


def test_a_feed_that_begins_anew_takes_the_place_of_the_one_before():
    owed, near, far = owed_states()
    owed.add([frame(0, 4), frame(0, 4, "kv"), frame(4, 4), frame(4, 4, "kv")])
    again = [frame(0, 3, mark=b"again"), frame(3, 5, mark=b"again")]
    owed.add(again[:1])
    assert [each.start for each in owed.take(near)] == [0, 0, 4, 4, 0], "the first frame is not covered yet"
    owed.add(again[1:])
    assert owed.take(far) == [frame(0, 4, "kv"), frame(4, 4, "kv"), *again]


def test_what_was_rewritten_is_forgotten_and_comes_again():
    owed, near, _ = owed_states()
    owed.add([frame(0, 4), frame(4, 4)])
    owed.forget(6)
    owed.add([frame(6, 1)])
    assert [(each.start, each.count) for each in owed.take(near)] == [(0, 4), (4, 2), (6, 1)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6), st.sampled_from(["lsa", "kv"])), max_size=30))
def test_the_newest_frame_of_every_position_is_kept(frames):
    owed, near, _ = owed_states()
    newest: dict[tuple[str, int], bytes] = {}
    for number, (start, count, kind) in enumerate(frames):
        owed.add([frame(start, count, kind, b"%d" % number)])
        newest |= {(kind, position): b"%d" % number for position in range(start, start + count)}
    taken: dict[tuple[str, int], bytes] = {}
    for state in owed.take(near):
        taken |= {(state.kind, position): state.payload for position in range(state.start, state.start + state.count)}
    assert taken == newest


def test_memory_does_not_grow_with_the_number_of_feeds():
    owed, _, far = owed_states()
    for _ in range(5):
        owed.add([frame(start, 8, kind) for start in range(0, 64, 8) for kind in ("lsa", "kv")])
    assert len(owed.take(far)) == 16
