"""Markdown on a terminal: what it becomes, and what is left as it is."""

import io
import re

import pytest
from rich.console import Console

from client.chat.markdown import rendered


def shown(text: str, width: int = 40) -> str | None:
    lines = rendered(text, Console(file=io.StringIO(), force_terminal=True, width=width, _environ={"TERM": "xterm"}))
    return None if lines is None else re.sub(r"\x1b\[[\d;]*m", "", lines)


def test_code_begins_in_the_first_column_and_is_coloured():
    text = "Look:\n\n```python\ndef f(x):\n\n    return x\n```\n"
    assert shown(text) == "Look:\n\ndef f(x):\n\n    return x\n"
    colours = rendered(text, Console(file=io.StringIO(), force_terminal=True, width=40, _environ={"TERM": "xterm"}))
    assert re.search(r"\x1b\[\d+mdef\x1b", colours)


def test_words_stay_whole_and_lines_their_own():
    assert shown("one two three\nfour **five**", width=10) == "one two\nthree\nfour five\n"


def test_what_looks_like_html_or_commands_a_terminal_is_text():
    assert shown("a List<int> *b* \x1b[31mred") == "a List<int> b [31mred\n"
    assert shown("[here](https://example.org)", width=60) == "here (https://example.org)\n"


@pytest.mark.parametrize("text", ["def f(x):\n    return x", "  /\\_/\\\n ( o.o )", "x = 1\n\tif y:\n\t\tz"])
def test_lines_that_would_lose_their_indentation_are_left_as_they_are(text):
    assert shown(text) is None


LONG = "https://example.org/a/long/path/that/is/wider/than/it/may.html"


@pytest.mark.parametrize(
    "text",
    [
        f"| what | where |\n|---|---|\n| docs | {LONG} |",
        f"See:\n\n![the plan]({LONG})",
        "Before ![plan](u) after",
        "Before ![plan](<>) after",
        f"Sources.\n\n[paper]: {LONG}",
        "| a | b |\n|---|---|\n| 1 | 2 | third |",
        "1. a\n1. b",
    ],
)
def test_what_would_lose_anything_or_its_place_is_left_as_it_is(text):
    assert shown(text) is None


def test_the_name_of_a_language_and_marks_are_no_loss():
    assert shown(f"*a* `b` **c** ~~d~~ [e]({LONG})\n\n```python\nf\n```") is not None
    assert shown("a &lt; b&nbsp;*c*") == "a < b\u00a0c\n"
    assert shown("| a | b |\n|---|---|\n| one two three four five | six seven eight nine ten |") is not None


def test_no_line_reaches_the_edge_by_spaces():
    text = "# Title\n\n- a\n- b\n\n> quoted\n\n`c`\n\n```\nd\n```\n"
    assert all(line == line.rstrip() for line in shown(text).splitlines())
