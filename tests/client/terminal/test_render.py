"""Answers on a terminal, in a pipe, and for programs."""

import asyncio
import io
import math
import re
from dataclasses import replace

import pytest
from rich.console import Console
from tokenizers import AddedToken

from client.chat.display import held_line
from client.terminal.render import (
    AnswerView,
    LiveRenderer,
    PlainRenderer,
    SilentRenderer,
    kept_line,
    lossy_line,
    private_line,
    renderer_for,
    stats_line,
    unreached_line,
    waiting_line,
)
from client.text import raw_tokens
from netem.virtual.clock import run_virtually
from tests.client.emulated_terminal import Terminal
from tests.client.test_stats import ONE
from tests.families import make_tokenizer
from tests.published import IM_END, byte_level


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=40, height=10, _environ={"TERM": "xterm"})


def shown_by(renderer, tokenizer, steps, stops=()) -> None:
    view = AnswerView(tokenizer, renderer, (), stops)
    for committed, provisional in steps:
        view(raw_tokens(tokenizer, committed) if committed else [], raw_tokens(tokenizer, provisional))
    view.end()


def test_a_pipe_gets_final_text_alone(tokenizer):
    to = console(terminal=False)
    renderer = renderer_for(to, lambda: 0.0)
    assert isinstance(renderer, PlainRenderer)
    shown_by(renderer, tokenizer, [("the ", "slow"), ("quick", " fox"), ("", " dog")])
    assert to.file.getvalue() == "the quick\n"


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
async def test_an_answer_cannot_command_a_terminal(tokenizer, kind):
    to = Console(file=io.StringIO(), force_terminal=True, width=40, height=10, _environ={"TERM": kind})
    shown_by(renderer_for(to, lambda: 0.0), tokenizer, [("a\x1b]0;owned\x07\x1b[2Jb\x9bc\r\td\n", ""), ("e", "")])
    renderer_for(to, lambda: 0.0).end("\x1b[2Jf")
    written = to.file.getvalue()
    for command in ("\x1b]0;", "\x07", "\x1b[2J", "\x9b"):
        assert command not in written
    assert "owned" in written


def test_a_pipe_gets_an_answer_as_it_is(tokenizer):
    to = console(terminal=False)
    shown_by(renderer_for(to, lambda: 0.0), tokenizer, [("a\x1b[2Jb\r\n", "")])
    assert to.file.getvalue() == "a\x1b[2Jb\r\n\n"


async def test_a_terminal_shows_provisional_text_and_keeps_none_of_it(tokenizer):
    to = console(terminal=True)
    renderer = renderer_for(to, lambda: 0.0)
    assert isinstance(renderer, LiveRenderer)
    shown_by(renderer, tokenizer, [("the ", "slow"), ("quick", " fox")])
    written = to.file.getvalue()
    assert "\x1b[2mslow" in written
    terminal = Terminal(40, 10)
    terminal.write(written)
    assert terminal.text.strip() == "the quick"


def test_provisional_text_alone_is_not_redrawn_at_every_step(tokenizer):
    to = console(terminal=True)

    async def drafting():
        view = AnswerView(tokenizer, LiveRenderer(to, asyncio.get_running_loop().time), ())
        for drafted in ("a", "ab", "abc", "abcd"):
            view([], raw_tokens(tokenizer, drafted))
            await asyncio.sleep(0.02)
        view.end()

    run_virtually(drafting())
    assert to.file.getvalue().count("\x1b[2m") == 2


def test_what_is_written_last_is_shown_though_nothing_comes_after_it(tokenizer):
    to = console(terminal=True)

    async def outage():
        view = AnswerView(tokenizer, LiveRenderer(to, asyncio.get_running_loop().time), ())
        for drafted in ("a", "ab", "abc"):
            view([], raw_tokens(tokenizer, drafted))
        await asyncio.sleep(10.0)
        drawn = to.file.getvalue()
        for drafted in ("abcd", "abcde"):
            view([], raw_tokens(tokenizer, drafted))
        view.end()
        await asyncio.sleep(10.0)
        return drawn

    drawn = run_virtually(outage())
    assert drawn.count("\x1b[2m") == 2
    assert "abc" in drawn
    assert "abcde" not in to.file.getvalue()


def test_programs_see_nothing_and_nothing_is_decoded_for_them(tokenizer):
    def never() -> str:
        raise AssertionError

    SilentRenderer().write("x", never)
    PlainRenderer(console(terminal=False)).write("x", never)


@pytest.mark.parametrize("terminal", [False, True])
async def test_text_ends_before_a_stop_string_that_came_in_parts(tokenizer, terminal):
    to = console(terminal)
    steps = [("the quick ", "brown"), ("bro", "wn fox"), ("wn", ""), (" fox", " dog")]
    shown_by(renderer_for(to, lambda: 0.0), tokenizer, steps, stops=("brown", "dog"))
    seen = Terminal(40, 10)
    seen.write(to.file.getvalue().replace("\n", "\r\n"))
    assert seen.text.strip() == "the quick"
    assert not re.search("brown|wn|fox", to.file.getvalue())


def test_what_is_never_confirmed_ends_before_a_stop_string_too(tokenizer):
    to = console(terminal=False)
    view = AnswerView(tokenizer, renderer_for(to, lambda: 0.0), (), ("brown",))
    view(raw_tokens(tokenizer, "the quick bro"), ())
    view.end(raw_tokens(tokenizer, "wn fox"))
    assert to.file.getvalue() == "the quick \n"


def test_text_that_only_began_like_a_stop_string_is_shown(tokenizer):
    to = console(terminal=False)
    shown_by(renderer_for(to, lambda: 0.0), tokenizer, [("the bro", ""), ("ther bro", "")], stops=("brown",))
    assert to.file.getvalue() == "the brother bro\n"


def test_a_broken_end_is_shown_behind_what_was_held_back(tokenizer):
    to = console(terminal=False)
    view = AnswerView(tokenizer, renderer_for(to, lambda: 0.0), (), ("brown",))
    view(raw_tokens(tokenizer, "bro🦊")[:-1], ())
    view.end()
    assert to.file.getvalue() == "bro\N{REPLACEMENT CHARACTER}\n"


async def test_an_end_token_is_not_shown_though_it_is_not_special():
    tokenizer = byte_level(AddedToken(IM_END))
    end, to = tokenizer.convert_tokens_to_ids(IM_END), console(terminal=True)
    view = AnswerView(tokenizer, renderer_for(to, lambda: 0.0), [end])
    view([], [*raw_tokens(tokenizer, "fox"), end])
    view([*raw_tokens(tokenizer, "fox"), end], [])
    view.end()
    assert "fox" in to.file.getvalue()
    assert "im_end" not in to.file.getvalue()


def test_the_line_of_stats_tells_the_seed_of_what_was_drawn():
    assert stats_line(ONE, None).endswith("rule greedy")
    assert stats_line(ONE, 123).endswith("rule greedy, seed 123")
    assert f"round trip {ONE.rtt_ms:.0f} ms, " in stats_line(ONE, None)
    assert "round trip" not in stats_line(replace(ONE, rtt_ms=0.0), None), "it was not measured"
    assert lossy_line("typical") == "typical: lossy, not the target's own distribution"


def test_a_single_token_is_singular():
    assert stats_line(replace(ONE, tokens=1), None).startswith("1 token in ")
    assert "is private: 1 token by " in private_line(1, ONE)
    assert kept_line(1) == "1 token is kept as the draft model wrote it: lossy, not the target's own"
    assert kept_line(2) == "2 tokens are kept as the draft model wrote them: lossy, not the target's own"
    assert held_line(1) == "1 token is the draft model's own; /online has the server verify it"


def test_a_server_that_is_there_and_will_not_talk_is_no_outage():
    assert unreached_line("a:1", "small", "") == (
        "the server at a:1 cannot be reached; the draft model 'small' writes alone until it answers"
    )
    assert (
        unreached_line("a:1", "small", "it hung up")
        == "it hung up; the draft model 'small' writes alone until it answers"
    )


def test_a_wait_is_told_in_whole_seconds():
    assert [waiting_line(seconds) for seconds in (0.3, 10.06, math.inf)] == [
        "waiting up to 1 s for the server",
        "waiting up to 10 s for the server",
        "waiting for the server",
    ]


def test_where_nothing_drafts_nothing_writes_alone():
    assert unreached_line("a:1", None, "") == "the server at a:1 cannot be reached; it is tried again"
