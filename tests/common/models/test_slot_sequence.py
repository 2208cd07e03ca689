"""The slots of a sequence: what was read of them stays, and what was cut is gone."""

from hypothesis import given
from hypothesis import strategies as st

from common.models.slot_sequence import SlotSequence

STEPS = st.lists(st.one_of(st.lists(st.integers(0, 999), max_size=200), st.integers(0, 300)), max_size=20)


@given(STEPS)
def test_it_is_a_list_that_grows_and_is_cut_at_its_end(steps: list[list[int] | int]) -> None:
    sequence, expected = SlotSequence(), list[int]()
    for step in steps:
        if isinstance(step, int):
            sequence.cut(step)
            del expected[step:]
        else:
            sequence.append(step)
            expected += step
        assert (len(sequence), sequence.slots.tolist()) == (len(expected), expected)


def test_what_was_read_stays_while_it_grows() -> None:
    sequence = SlotSequence()
    sequence.append(range(3))
    read = sequence.slots
    for slot in range(3, 500):
        sequence.append([slot])
    assert read.tolist() == [0, 1, 2]
    assert sequence.slots.tolist() == list(range(500))
