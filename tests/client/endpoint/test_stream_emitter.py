"""What is said of an answer, by hand: committed text at once, the draft's only once nobody will judge it."""

import asyncio

import pytest

from client.endpoint import stream_emitter as teller_module
from client.endpoint.openai_responses import Piece
from client.endpoint.stream_emitter import Teller
from client.link.link_state import LinkState


class Letters:
    """Token 1 is a, 2 is b, and so on."""

    def decode(self, tokens, **_):
        return "".join(chr(96 + token) for token in tokens)


class Line:
    """A conversation whose link is lost or not, and that keeps what it is told to."""

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
def said() -> list[Piece]:
    return []


@pytest.fixture
def teller(line, said, monkeypatch) -> Teller:
    monkeypatch.setattr(teller_module, "GRACE_SECONDS", 0.02)
    events = line.events
    return Teller(
        Letters(), ("cab",), said.append, line.keep, lambda: events.append("gone"), lambda: events.append("over")
    )


def provide(teller, line, committed, provisional):
    line.run = tuple(provisional)
    teller(committed, provisional)


async def lose(teller, line):
    line.is_lost = True
    teller.link_changed(LinkState.OFFLINE)
    await asyncio.sleep(0.05)


async def test_only_committed_text_is_said_while_somebody_judges(teller, line, said):
    provide(teller, line, [1, 2], [4, 5])
    teller.link_changed(LinkState.SUSPECT)
    provide(teller, line, [4], [5])
    assert said == [Piece("ab"), Piece("d")]
    assert teller.text == "abd"


async def test_once_the_link_is_gone_for_good_the_drafts_own_is_said_once(teller, line, said):
    provide(teller, line, [1], [4, 5])
    await lose(teller, line)
    assert line.events == ["gone"]
    provide(teller, line, [], [6])
    provide(teller, line, [], [])
    assert said == [Piece("a"), Piece("de", alone=True), Piece("f", alone=True)]
    assert teller.alone == 3


async def test_a_link_that_is_back_within_the_grace_was_never_gone(teller, line, said):
    provide(teller, line, [1], [4])
    line.is_lost = True
    teller.link_changed(LinkState.OFFLINE)
    teller.link_changed(LinkState.RESUMING)
    teller.link_changed(LinkState.ONLINE)
    await asyncio.sleep(0.05)
    provide(teller, line, [2], [5])
    assert said == [Piece("a"), Piece("b")]
    assert line.events == []


async def test_attempts_to_come_back_do_not_begin_the_grace_anew(teller, line):
    teller.link_changed(LinkState.OFFLINE)
    teller.link_changed(LinkState.RESUMING)
    teller.link_changed(LinkState.OFFLINE)
    await asyncio.sleep(0.05)
    assert line.events == ["gone"]


async def test_after_the_link_is_back_only_committed_text_is_said_again(teller, line, said):
    provide(teller, line, [], [4])
    await lose(teller, line)
    line.is_lost = False
    teller.link_changed(LinkState.ONLINE)
    provide(teller, line, [5], [6])
    assert said == [Piece("d", alone=True), Piece("e")]


async def test_what_may_begin_a_stop_string_waits_and_the_stop_string_is_never_said(teller, line, said):
    provide(teller, line, [4, 3, 1], [2])
    assert said == [Piece("d")]
    await lose(teller, line)
    assert line.events == ["gone", "over"]
    teller.end()
    assert teller.text == "d"
    assert teller.stopped


async def test_what_waited_is_said_at_the_end(teller, line, said):
    provide(teller, line, [4, 3, 1], [])
    teller.end()
    assert said == [Piece("d"), Piece("ca")]
