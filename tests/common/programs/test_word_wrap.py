"""Rows of a terminal: together they are the text, none is too wide, and no word is broken that fits a row."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from common.programs.word_wrap import wrapped

TEXTS = st.text(alphabet="ab \n日🦊", max_size=40)
WIDTHS = st.integers(2, 12)


@given(TEXTS, WIDTHS)
def test_rows_together_are_the_text(text, width):
    assert "".join(wrapped(text, width)) == text


@given(TEXTS, WIDTHS)
def test_no_row_is_wider_than_the_terminal(text, width):
    assert all(cell_len(row.rstrip(" \n")) <= width or not row.strip(" \n") for row in wrapped(text, width))


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=8), max_size=12), st.integers(8, 20))
def test_a_word_that_fits_a_row_is_not_broken(words, width):
    assert " ".join(wrapped(" ".join(words), width)).split() == words
