"""What is counted in a text that many rows share."""

from common.sampling.preceding import Preceding, Text


def test_a_text_is_counted_from_any_position():
    text = Text([5, 7, 5, 9, 5])
    assert text.distinct == {5, 7, 9}
    assert text.said(0) == {5: 3, 7: 1, 9: 1}
    assert text.said(3) == {9: 1, 5: 1}
    assert text.said(5) == text.said(8) == {}


def test_an_answer_may_begin_behind_the_text():
    before = Preceding(Text([1, 2]), [(), (3,), (3, 4, 5)])
    assert before.paths_from(0) == before.paths_from(2) == [(), (3,), (3, 4, 5)]
    assert before.paths_from(3) == [(), (), (4, 5)]
