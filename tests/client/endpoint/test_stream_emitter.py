"""What is streamed of an answer: committed text at once, the draft's only once no server will judge it."""

import asyncio

import pytest

from client.endpoint import stream_emitter
from client.endpoint.answer_parsers.calls import CallParser
from client.endpoint.answer_parsers.hermes import Hermes
from client.endpoint.answer_parsers.pieces import PlainText, TextPiece, ToolCall
from client.endpoint.stream_emitter import StreamEmitter, TextForm
from client.link.link_state import LinkState
from client.text import raw_tokens
from tests.published import llama2


class Letters:
    """A tokenizer: token 1 is a, 2 is b, and so on."""

    def decode(self, tokens, **_):
        return "".join(chr(96 + token) for token in tokens)


class Line:
    """A conversation whose link is lost or not, and that records what it is told to keep."""

    def __init__(self):
        self.is_lost = False
        self.run = ()
        self.events = []
        self.upload_s = 0.0

    def keep(self, count):
        kept, self.run = (self.run[:count], self.run[count:]) if self.is_lost else ((), self.run)
        return kept


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def said() -> list[TextPiece]:
    return []


@pytest.fixture
def emitter(line, said, monkeypatch) -> StreamEmitter:
    monkeypatch.setattr(stream_emitter, "GRACE_S", 0.02)
    events = line.events
    form = TextForm(("cab",), PlainText(), {}, (26,))
    return StreamEmitter(
        Letters(),
        form,
        said.append,
        line.keep,
        lambda: events.append("gone"),
        lambda: events.append("over"),
        lambda _: None,
        lambda: line.upload_s,
    )


def provide(emitter, line, committed, provisional):
    line.run = tuple(provisional)
    emitter(committed, provisional)


async def lose(emitter, line):
    line.is_lost = True
    emitter.link_changed(LinkState.OFFLINE)
    await asyncio.sleep(0.05)


def test_a_note_follows_text_of_the_drafts_own_alone(emitter, said):
    emitter([1], [])
    emitter.emit_unverified([3, 1, 2])  # a stop string
    emitter.end(is_cut=False)
    emitter.append_note("(alone)")
    assert [piece.text for piece in said] == ["a"]


def test_a_note_ends_what_the_draft_has_written(emitter, said):
    emitter([1], [])
    emitter.emit_unverified([4])
    emitter.end(is_cut=False)
    emitter.append_note("(alone)")
    assert [(piece.text, piece.unverified) for piece in said] == [("a", False), ("d", True), ("(alone)", True)]


async def test_only_committed_text_is_said_while_somebody_judges(emitter, line, said):
    provide(emitter, line, [1, 2], [4, 5])
    emitter.link_changed(LinkState.SUSPECT)
    provide(emitter, line, [4], [5])
    assert said == [TextPiece("ab"), TextPiece("d")]
    assert emitter.text == "abd"


async def test_once_the_link_is_gone_for_good_the_drafts_own_is_said_once(emitter, line, said):
    provide(emitter, line, [1], [4, 5])
    await lose(emitter, line)
    assert line.events == ["gone"]
    provide(emitter, line, [], [6])
    provide(emitter, line, [], [])
    assert said == [TextPiece("a"), TextPiece("de", unverified=True), TextPiece("f", unverified=True)]
    assert emitter.unverified == 3


async def test_a_link_that_is_back_within_the_grace_was_never_gone(emitter, line, said):
    provide(emitter, line, [1], [4])
    line.is_lost = True
    emitter.link_changed(LinkState.OFFLINE)
    emitter.link_changed(LinkState.RESUMING)
    emitter.link_changed(LinkState.ONLINE)
    await asyncio.sleep(0.05)
    provide(emitter, line, [2], [5])
    assert said == [TextPiece("a"), TextPiece("b")]
    assert line.events == []


def resume(emitter, line, upload_s):
    emitter.link_changed(LinkState.RESUMING)
    line.upload_s = upload_s


async def test_a_conversation_that_is_being_sent_anew_is_waited_for(emitter, line, said):
    line.is_lost = True
    emitter.link_changed(LinkState.OFFLINE)
    resume(emitter, line, upload_s=0.5)
    await asyncio.sleep(0.05)
    provide(emitter, line, [], [4])
    assert (line.events, said) == ([], [])
    await asyncio.sleep(0.6)
    assert (line.events, said) == (["gone"], [TextPiece("d", unverified=True)])


async def test_a_stream_that_is_lost_while_a_conversation_is_sent_anew_is_waited_for_no_longer(emitter, line):
    emitter.link_changed(LinkState.OFFLINE)
    resume(emitter, line, upload_s=60.0)
    await asyncio.sleep(0.05)
    assert line.events == []
    line.upload_s = 0.0
    emitter.link_changed(LinkState.OFFLINE)
    await asyncio.sleep(0.02)
    assert line.events == ["gone"]


async def test_attempts_to_come_back_do_not_begin_the_grace_anew(emitter, line):
    for _ in range(5):
        emitter.link_changed(LinkState.OFFLINE)
        emitter.link_changed(LinkState.RESUMING)
        await asyncio.sleep(0.01)
    assert line.events == ["gone"]


async def test_a_link_that_is_gone_for_good_is_told_once_and_each_outage_has_its_grace(emitter, line):
    await lose(emitter, line)
    emitter.link_changed(LinkState.RESUMING)
    await lose(emitter, line)
    assert line.events == ["gone"]
    emitter.link_changed(LinkState.ONLINE)
    emitter.link_changed(LinkState.OFFLINE)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert line.events == ["gone"]


async def test_after_the_link_is_back_only_committed_text_is_said_again(emitter, line, said):
    provide(emitter, line, [], [4])
    await lose(emitter, line)
    line.is_lost = False
    emitter.link_changed(LinkState.ONLINE)
    provide(emitter, line, [5], [6])
    assert said == [TextPiece("d", unverified=True), TextPiece("e")]


async def test_what_may_begin_a_stop_string_waits_and_the_stop_string_is_never_said(emitter, line, said):
    provide(emitter, line, [4, 3, 1], [2])
    assert said == [TextPiece("d")]
    await lose(emitter, line)
    assert line.events == ["gone", "over"]
    emitter.end(is_cut=False)
    assert emitter.text == "d"
    assert emitter.stopped


async def test_a_server_that_goes_on_behind_a_stop_string_is_told(emitter, line):
    """It reads special tokens too, which may stand in the middle of a stop string."""
    provide(emitter, line, [4, 3, 1, 2], [])
    assert emitter.stopped
    assert line.events == []
    provide(emitter, line, [], [5])
    assert line.events == []
    provide(emitter, line, [5], [])
    assert line.events == ["over"]


async def test_tokens_behind_the_texts_end_do_not_count(emitter, line, said):
    provide(emitter, line, [4], [3, 1, 2, 5, 5, 5])
    await lose(emitter, line)
    assert (emitter.tokens, emitter.unverified) == (4, 3)
    emitter.emit_unverified([5, 5])
    emitter.end(is_cut=False)
    assert (emitter.tokens, emitter.unverified, emitter.text) == (4, 3, "d")


async def test_what_waited_is_said_at_the_end(emitter, line, said):
    provide(emitter, line, [4, 3, 1], [])
    emitter.end(is_cut=False)
    assert said == [TextPiece("d"), TextPiece("ca")]


CALL = '<tool_call>{"name": "add", "arguments": {}}</tool_call>'
MADE = ToolCall("id", "add", "{}")


def test_an_end_token_is_no_text(emitter, said):
    emitter([1, 2, 26], [])
    emitter.end(is_cut=False)
    assert [piece.text for piece in said] == ["ab"]


def test_text_begins_behind_the_prompt(line, said):
    tokenizer = llama2()
    fox = raw_tokens(tokenizer, "fox")
    form = TextForm((), PlainText(), {}, (), before=fox)
    emitter = StreamEmitter(tokenizer, form, said.append, line.keep, None, None, lambda _: None, lambda: 0.0)
    emitter(fox, [])
    assert [piece.text for piece in said] == [" fox"]


class Characters:
    """A tokenizer whose tokens are characters; token 7 is special."""

    def decode(self, tokens, **_):
        return "".join(chr(token) for token in tokens if token != 7)


def calling(line, said, *, has_one_call: bool) -> StreamEmitter:
    form = TextForm((), CallParser(Hermes(), {"add"}, lambda: "id"), {7: "<tool_call>"}, (), has_one_call)
    events = line.events
    return StreamEmitter(
        Characters(),
        form,
        said.append,
        lambda _: (),
        lambda: events.append("gone"),
        lambda: events.append("over"),
        lambda _: None,
        lambda: 0.0,
    )


@pytest.mark.parametrize(("has_one_call", "calls"), [(False, [MADE, MADE]), (True, [MADE])])
async def test_calls_are_emitted_when_whole_and_the_only_one_that_is_wanted_ends_the_answer(
    line, said, has_one_call, calls
):
    emitter = calling(line, said, has_one_call=has_one_call)
    emitter(list(map(ord, f"Yes {CALL[:20]}")), [])
    assert "".join(piece.text for piece in said) == "Yes"
    emitter(list(map(ord, f"{CALL[20:]}{CALL}")), [])
    emitter.end(is_cut=False)
    assert said == emitter.pieces
    assert [piece for piece in said if not isinstance(piece, TextPiece)] == calls
    assert "".join(piece.text for piece in said if isinstance(piece, TextPiece)) == "Yes"
    assert (emitter.stopped, line.events) == (has_one_call, ["over"] * has_one_call)
    assert emitter.tokens == len(f"Yes {CALL}{'' if has_one_call else CALL}"), "no token behind the only one counts"


async def test_a_mark_that_is_a_special_token_is_seen(line, said):
    emitter = calling(line, said, has_one_call=False)
    emitter([7, *map(ord, CALL.removeprefix("<tool_call>"))], [])
    assert said == [MADE]


async def test_a_call_that_is_cut_is_text(line, said):
    emitter = calling(line, said, has_one_call=False)
    emitter(list(map(ord, CALL[:-3])), [])
    emitter.end(is_cut=True)
    assert "".join(piece.text for piece in said) == emitter.text == CALL[:-3]


async def test_what_is_drafted_makes_no_call(line, said):
    emitter = calling(line, said, has_one_call=False)
    with pytest.raises(AssertionError, match="unverified"):
        emitter.emit_unverified(list(map(ord, CALL)))
