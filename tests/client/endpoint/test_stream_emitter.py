"""What is streamed of an answer: committed text at once, the draft's only once no server will judge it."""

import asyncio

import pytest

from client.endpoint import stream_emitter
from client.endpoint.openai_responses import TextPiece
from client.endpoint.stream_emitter import StreamEmitter
from client.link.link_state import LinkState


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
    return StreamEmitter(
        Letters(), ("cab",), said.append, line.keep, lambda: events.append("gone"), lambda: events.append("over")
    )


def provide(emitter, line, committed, provisional):
    line.run = tuple(provisional)
    emitter(committed, provisional)


async def lose(emitter, line):
    line.is_lost = True
    emitter.link_changed(LinkState.OFFLINE)
    await asyncio.sleep(0.05)


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


async def test_attempts_to_come_back_do_not_begin_the_grace_anew(emitter, line):
    emitter.link_changed(LinkState.OFFLINE)
    emitter.link_changed(LinkState.RESUMING)
    emitter.link_changed(LinkState.OFFLINE)
    await asyncio.sleep(0.05)
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
    emitter.end()
    assert emitter.text == "d"
    assert emitter.stopped


async def test_what_waited_is_said_at_the_end(emitter, line, said):
    provide(emitter, line, [4, 3, 1], [])
    emitter.end()
    assert said == [TextPiece("d"), TextPiece("ca")]
