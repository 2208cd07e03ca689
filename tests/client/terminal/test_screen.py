"""The screen: final text whole and in order, and provisional text behind it until it is replaced."""

from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.terminal.screen import Screen
from common.programs.word_wrap import wrapped
from common.protocol.plain import printable
from tests.client.emulated_terminal import Terminal

TEXTS = st.text(alphabet="ab \n日🦊", max_size=30)
JOINING = st.text(alphabet="ab \n👩\u200d\ufe0f", max_size=30)
TAIL_ROWS = 3


def seen(width: int, *updates: tuple[str, str]) -> Terminal:
    screen, terminal = Screen(), Terminal(width, height=8)
    for final, provisional in updates:
        terminal.write(screen.update(final, provisional, width, TAIL_ROWS))
    return terminal


def letters(text: str) -> str:
    """The text without the line breaks that wrapping added, and with the spaces that they replaced."""
    return "".join(text.split())


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
    screen = Screen()
    assert screen.update("a", "b", 20, TAIL_ROWS)
    assert screen.update("", "b", 20, TAIL_ROWS) == ""


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=12), st.integers(4, 12))
def test_final_text_is_always_whole(updates, width):
    terminal = seen(width, *updates, ("", ""))
    assert terminal.text == on_paper("".join(final for final, _ in updates), width)


def test_a_terminal_made_narrower_in_mid_answer_keeps_no_residue():
    screen, terminal = Screen(), Terminal(20, height=12)
    terminal.write(screen.update("the quick brown fox jumps", " over the lazy dog", 20, TAIL_ROWS))
    terminal.resize(7)
    terminal.write(screen.update(" high", "", 7, TAIL_ROWS))
    assert letters(terminal.lines) == "thequickbrownfoxjumpshigh"
    assert terminal.dim_text == ""


@given(st.lists(st.tuples(TEXTS, TEXTS, st.integers(4, 12)), max_size=12))
def test_final_text_is_whole_whatever_the_sizes(updates):
    screen, terminal = Screen(), Terminal(12, height=80)
    for final, provisional, width in (*updates, ("", "", 5)):
        terminal.resize(width)
        terminal.write(screen.update(final, provisional, width, TAIL_ROWS))
    assert letters(terminal.lines) == letters("".join(final for final, _, _ in updates))


@pytest.mark.parametrize("joins", [True, False])
@given(st.lists(st.tuples(JOINING, JOINING), max_size=8), st.integers(4, 12))
def test_final_text_is_whole_whatever_cells_joined_emoji_take(joins, updates, width):
    screen, terminal = Screen(), Terminal(width, height=80, joins=joins)
    for final, provisional in (*updates, ("", "")):
        terminal.write(screen.update(final, provisional, width, TAIL_ROWS))
    assert letters(terminal.lines) == letters("".join(final for final, _ in updates))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("the quick brown fox", ["the quick", "brown fox"]),
        ("the quick  brown", ["the quick", "brown"]),
        ("exactly ten letters", ["exactly", "ten", "letters"]),
        ("0123456789 next", ["0123456789", "next"]),
        ("a 0123456789012345 b", ["a", "0123456789", "012345 b"]),
        ("日本語の文章を折る", ["日本語の文", "章を折る"]),
        ("ab 日本語のx文", ["ab 日本語", "のx文"]),
        ("the quick\nbrown fox jumps", ["the quick", "brown fox", "jumps"]),
        ("naïve cafe\u0301s are", ["naïve", "cafe\u0301s are"]),
        ("日本語の日\u3099abc", ["日本語の日\u3099", "abc"]),
    ],
)
@pytest.mark.parametrize("tail", ["", " maybe this and that"])
def test_words_are_whole_however_their_letters_come(text, rows, tail):
    letter_by_letter = [(letter, tail) for letter in text]
    assert seen(10, *letter_by_letter, ("", "")).text == "\n".join(rows)
    assert seen(10, (text, "")).text == "\n".join(rows)


def test_what_is_provisional_is_broken_between_words_and_takes_a_word_along():
    terminal = seen(10, ("the qui", "ckest brown fox"))
    assert terminal.text == "the\nquickest\nbrown fox"
    assert terminal.dim_text == "ckest brown fox"
    assert seen(10, ("the qui", "ckest brown fox"), ("ck", "")).text == "the quick"


def test_what_nobody_judged_stays_whole_behind_the_answer():
    for unconfirmed in ("and so on and on", "a 👩\u200d👧 and so on"):
        screen, terminal = Screen(), Terminal(10, height=8)
        terminal.write(screen.update("once upon", "x", 10, 0))
        terminal.write(screen.ended(unconfirmed, 10))
        assert letters(terminal.lines) == letters("once upon" + unconfirmed)
        assert letters(terminal.dim_text) == letters(unconfirmed)


def test_nothing_provisional_is_shown_beside_joined_emoji():
    assert seen(20, ("a", "👩\u200d👧")).dim_text == ""
    assert seen(20, ("❤\ufe0f", " b")).dim_text == ""
    assert seen(20, ("❤\ufe0f\n", "b")).dim_text == "b"


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=6), TEXTS, st.integers(4, 12))
def test_what_was_taken_back_leaves_no_trace(final, taken_back, provisional, width):
    terminal = seen(width, *zip(final, cycle(taken_back)), ("", taken_back[0]), ("", provisional))
    afresh = seen(width, (final, provisional))
    assert terminal.text == afresh.text
    assert letters(terminal.dim_text) == letters(afresh.dim_text)


@pytest.mark.parametrize(("text", "shown"), [("a\tb", "a    b"), ("\x1b[2Jx\x07\r\ny", "[2Jx\ny")])
def test_text_cannot_command_the_terminal(text, shown):
    assert printable(text) == shown


def replaced(text: str, by: str, width: int = 20, height: int = 6) -> tuple[str, Terminal]:
    """The characters that replace an answer, and what is seen then behind a question."""
    screen, terminal = Screen(), Terminal(width, height)
    terminal.write("> ask\r\n" + screen.update(text, "maybe", width, 3) + screen.update("", "", width, 3) + "\r\n")
    characters = screen.replaced(by, width, height)
    terminal.write(characters)
    return characters, terminal


@pytest.mark.parametrize("text", ["one", "one\ntwo\n", "x" * 20, "x" * 45 + "\nend", ""])
def test_what_was_shown_is_replaced_and_nothing_above_it(text):
    _, terminal = replaced(text, "ONE\nTWO\n")
    assert terminal.text == "> ask\nONE\nTWO\n"


@pytest.mark.parametrize("text", ["1\n2\n3\n4\n5\n6", "x" * 101, "a flag \U0001f1e6\U0001f1e6"])
def test_what_may_have_left_the_screen_stays_as_it_is(text):
    assert replaced(text, "other\n")[0] == ""


def test_what_a_terminal_may_have_wrapped_anew_stays_as_it_is():
    screen = Screen()
    screen.update("x" * 30, "", 20, 3)
    assert screen.replaced("other\n", 25, 6) == ""
