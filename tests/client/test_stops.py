"""Text up to a stop string: the same for any split into pieces, and undecided text is withheld."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.stops import TextBeforeStop, before_stop

PIECES = st.lists(st.text("ab\n", max_size=6), max_size=8)
STOPS = st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3)


def shown(pieces: list[str], stops: list[str]) -> list[str]:
    """What each piece made final, then what was left at the end."""
    text = TextBeforeStop(stops)
    return [*map(text.append, pieces), text.flush()]


@pytest.mark.parametrize(
    ("text", "stops", "before"),
    [
        ("one two", [], "one two"),
        ("one two", ["three"], "one two"),
        ("one two two", ["two"], "one "),
        ("stop here", ["stop"], ""),
        ("a, b; c", [";", ","], "a"),
        ("xabc", ["ab", "abc"], "x"),  # the shorter one is complete first
        ("xabcd", ["abcd", "bc"], "xa"),  # so is the one that begins later
        ("xabc", ["bc", "abc"], "x"),  # of two that end together nothing is shown
    ],
)
def test_the_stop_string_that_is_complete_first_ends_the_text(text, stops, before):
    assert before_stop(text, stops) == before
    assert "".join(shown([text], stops)) == before
    assert "".join(shown(list(text), stops)) == before


def test_a_stop_string_over_several_pieces_is_never_shown():
    assert shown(["one ", "EN", "D", " two"], ["END"]) == ["one ", "", "", "", ""]
    assert shown(["one E", "ND two", "three"], ["END"]) == ["one ", "", "", ""]


def test_what_might_have_begun_a_stop_string_is_shown_once_it_has_not():
    assert shown(["one\n", "\n", "two"], ["\n\n#"]) == ["one", "", "\n\ntwo", ""]
    assert shown(["aa", "a", "b"], ["aab"]) == ["", "a", "", ""]


def test_what_is_undecided_at_the_end_is_shown_then():
    assert shown(["one EN"], ["END"]) == ["one ", "EN"]


def test_a_preview_ends_before_a_stop_string_and_decides_nothing():
    text = TextBeforeStop(["END"])
    assert text.append("one E") == "one "
    assert text.preview("ND two") == ""
    assert text.preview("arly END") == "Early "
    assert text.append("ven") == "Even"
    assert text.append("END") == text.preview("two") == ""


@given(PIECES, STOPS)
def test_pieces_do_not_matter(pieces, stops):
    assert "".join(shown(pieces, stops)) == before_stop("".join(pieces), stops)


@given(PIECES, STOPS)
def test_nothing_is_held_back_but_the_beginning_of_a_stop_string(pieces, stops):
    text = TextBeforeStop(stops)
    final = ""
    for whole, piece in zip(accumulate(pieces), pieces, strict=True):
        final += text.append(piece)
        held_back = before_stop(whole, stops).removeprefix(final)
        assert text.preview("") == held_back
        assert not held_back or any(stop.startswith(held_back) for stop in stops)
