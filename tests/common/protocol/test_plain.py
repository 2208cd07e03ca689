"""A peer's text is shown as one short line without control codes."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from common.protocol.plain import is_plain, plain, printable


@given(st.text(), st.integers(0, 30))
def test_what_is_shown_is_one_short_printable_line(text: str, longest: int) -> None:
    shown = plain(text, longest)
    assert shown.isprintable()
    assert len(shown) <= longest + 1
    assert not {unicodedata.category(each) for each in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def test_what_is_plain_already_stays_as_it_is() -> None:
    sentence = "der Entwurf „größer“ 中文 🙂 fits"
    assert plain(sentence) == sentence
    assert is_plain(sentence)


def test_what_is_not_is_cut_and_cleaned() -> None:
    assert plain("a\x1b[2Jb\r\nc\u202ed\x9b") == "a [2Jb  c d"
    assert plain("x" * 61) == "x" * 60 + "…"
    for text in ("", "\n", "a\x00", "\x1b[2J", "\u202e", "x" * 256):
        assert not is_plain(text)


@given(st.text())
def test_what_a_terminal_gets_keeps_words_and_lines_and_moves_nothing(text: str) -> None:
    shown = printable(text)
    assert not {each for each in shown if unicodedata.category(each) == "Cc"} - {"\n"}
    kept = [each for each in text if each.isprintable() or each == "\n"]
    assert [each for each in shown if each in kept and each != " "] == [each for each in kept if each != " "]


def test_a_tab_becomes_blanks_and_what_turns_the_reading_round_goes() -> None:
    assert printable("a\tb").split() == ["a", "b"]
    assert printable("a\u202eb\x1b[2Jc\nd") == "ab[2Jc\nd"
    assert printable("न\u200dम") == "न\u200dम"
