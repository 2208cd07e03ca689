"""Answers on a terminal, in a pipe, and for programs."""

import io

import pytest
from rich.console import Console

from client.render import AnswerView, LivePaper, NoPaper, PlainPaper, paper_for
from client.text import raw_tokens
from tests.client.terminal import Terminal
from tests.families import make_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=40, height=10, _environ={"TERM": "xterm"})


def shown_by(paper, tokenizer, steps) -> None:
    view = AnswerView(tokenizer, paper)
    for committed, provisional in steps:
        view(raw_tokens(tokenizer, committed) if committed else [], raw_tokens(tokenizer, provisional))
    view.end()


def test_a_pipe_gets_final_text_alone(tokenizer):
    to = console(terminal=False)
    paper = paper_for(to, lambda: 0.0)
    assert isinstance(paper, PlainPaper)
    shown_by(paper, tokenizer, [("the ", "slow"), ("quick", " fox"), ("", " dog")])
    assert to.file.getvalue() == "the quick\n"


def test_a_terminal_shows_provisional_text_and_keeps_none_of_it(tokenizer):
    to = console(terminal=True)
    paper = paper_for(to, lambda: 0.0)
    assert isinstance(paper, LivePaper)
    shown_by(paper, tokenizer, [("the ", "slow"), ("quick", " fox")])
    written = to.file.getvalue()
    assert "\x1b[2mslow" in written
    terminal = Terminal(40, 10)
    terminal.write(written)
    assert terminal.text.strip() == "the quick"


def test_provisional_text_alone_is_not_redrawn_at_every_step(tokenizer):
    to = console(terminal=True)
    times = iter([0.0, 0.1, 0.11, 0.12, 0.2, 0.3])
    shown_by(LivePaper(to, lambda: next(times)), tokenizer, [("", "a"), ("", "ab"), ("", "abc"), ("", "abcd")])
    assert to.file.getvalue().count("\x1b[2m") == 2


def test_programs_see_nothing_and_nothing_is_decoded_for_them(tokenizer):
    def never() -> str:
        raise AssertionError

    NoPaper().write("x", never)
    PlainPaper(console(terminal=False)).write("x", never)
