"""What a person sees: final text whole and in order, provisional text behind it until it is replaced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.screen import Screen, printable, wrapped
from tests.client.terminal import Terminal

TEXTS = st.text(alphabet="ab \n日🦊", max_size=30)


def seen(width: int, *updates: tuple[str, str]) -> Terminal:
    screen, terminal = Screen(width, tail_rows=3), Terminal(width, height=8)
    for final, provisional in updates:
        terminal.write(screen.update(final, provisional))
    return terminal


def on_paper(text: str, width: int) -> str:
    return "\n".join(row.removesuffix("\n").rstrip() for row in wrapped(text, width))


def test_wrong_text_is_replaced():
    terminal = seen(20, ("the ", "quick fix"), ("quick ", ""), ("brown", " fox"))
    assert terminal.text == "the quick brown fox"
    assert terminal.dim_text == " fox"


def test_long_provisional_text_is_cut_to_its_rows():
    terminal = seen(10, ("x", "y" * 200))
    assert len(terminal.rows) == 4


def test_nothing_is_written_where_nothing_changed():
    screen = Screen(20, 3)
    assert screen.update("a", "b")
    assert screen.update("", "b") == ""


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=12), st.integers(4, 12))
def test_final_text_is_always_whole(updates, width):
    terminal = seen(width, *updates, ("", ""))
    assert terminal.text == on_paper("".join(final for final, _ in updates), width)


@given(TEXTS, st.integers(2, 12))
def test_rows_together_are_the_text(text, width):
    assert "".join(wrapped(text, width)) == text


@pytest.mark.parametrize(("text", "shown"), [("a\tb", "a    b"), ("\x1b[2Jx\x07\r\ny", "[2Jx\ny")])
def test_text_cannot_command_the_terminal(text, shown):
    assert printable(text) == shown
