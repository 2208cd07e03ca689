"""Tables on a terminal: within its width, with every cell, each beside what names its row."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from common.programs.fitted_table import fitted_table

HEADINGS = ("link", "draft", "tokens/s", "what it is")
ROWS = (
    ("4g", "moa", "66.9", "a phone on 4G"),
    ("4g", "eagle", "50.1", "a phone"),
    ("5g", "moa", "81.0", "a phone on 5G"),
)

CELLS = st.text(alphabet="ab日 ", max_size=12)
TABLES = st.integers(1, 5).flatmap(
    lambda count: st.lists(st.lists(CELLS, min_size=count, max_size=count), min_size=1, max_size=5)
)


def test_a_table_that_fits_has_a_line_for_each_row():
    assert fitted_table(HEADINGS, ROWS, 80) == [
        "link  draft  tokens/s  what it is",
        "4g    moa    66.9      a phone on 4G",
        "4g    eagle  50.1      a phone",
        "5g    moa    81.0      a phone on 5G",
    ]


def test_cells_are_broken_between_words_before_columns_are_parted():
    assert fitted_table(HEADINGS, ROWS[:2], 30) == [
        "link  draft  tokens/s  what it",
        "                       is",
        "4g    moa    66.9      a phone",
        "                       on 4G",
        "4g    eagle  50.1      a phone",
    ]


def test_columns_that_do_not_fit_follow_below_what_tells_the_rows_apart():
    assert fitted_table(HEADINGS, ROWS, 21) == [
        "link  draft  tokens/s",
        "4g    moa    66.9",
        "4g    eagle  50.1",
        "5g    moa    81.0",
        "",
        "link  draft  what it",
        "             is",
        "4g    moa    a phone",
        "             on 4G",
        "4g    eagle  a phone",
        "5g    moa    a phone",
        "             on 5G",
    ]


def test_a_terminal_too_narrow_for_columns_gets_each_row_as_lines():
    assert fitted_table(HEADINGS, ROWS[:1], 12) == [
        "link: 4g",
        "draft: moa",
        "tokens/s:",
        "66.9",
        "what it is:",
        "a phone on",
        "4G",
    ]


def test_a_table_without_rows_is_its_headings():
    assert fitted_table(HEADINGS, (), 80) == ["link  draft  tokens/s  what it is"]


@given(TABLES, st.integers(2, 40))
def test_no_line_is_wider_than_the_terminal(table, width):
    assert all(cell_len(line) <= width for line in fitted_table(table[0], table[1:], width))


@given(TABLES, st.integers(2, 40))
def test_every_cell_is_shown(table, width):
    shown = "".join(fitted_table(["x"] * len(table[0]), table, width))
    for letter in "ab日":
        assert shown.count(letter) >= sum(cell.count(letter) for row in table for cell in row)
