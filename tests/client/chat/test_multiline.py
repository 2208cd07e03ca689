"""Which lines belong to a message, and the text of the message."""

import pytest

from client.chat.multiline import TypedMessage, as_message, is_open


@pytest.mark.parametrize(
    ("typed", "open_"),
    [('"""', True), (' """a', True), ('"""a\n"""', False), ('"""a"""', False), ('a """', False), ("", False)],
)
def test_a_quotation_ends_with_its_mark(typed, open_):
    assert is_open(typed) is open_


@pytest.mark.parametrize(
    ("typed", "open_"),
    [
        ("Sum up: [[private]] Dear Ann,", True),
        ("[[private]] a\nb [[/private]]", False),
        ("[[private]]a[[/private]] [[private]]b", True),
        ("[[/private]]", False),
    ],
)
def test_no_line_of_a_private_span_is_a_message_of_its_own(typed, open_):
    assert is_open(typed) is open_


@pytest.mark.parametrize(
    ("typed", "text", "literal"),
    [
        ("  hello \n", "hello", False),
        ('"""\n  if x:\n    y\n"""', "  if x:\n    y", True),
        ('"""/quit"""', "/quit", True),
        ('"""never ended', "never ended", True),
        ("", "", False),
    ],
)
def test_a_message_is_what_stands_between_its_marks(typed, text, literal):
    assert as_message(typed) == TypedMessage(text, literal)
