"""The events of an answer for a reader who is shown provisional text."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from types import SimpleNamespace

import pytest

from client.answer import Answer
from client.answering import AnswerOptions
from client.drafting.policies import STREAM
from client.endpoint.answer_on_conversation import Choice
from client.endpoint.answer_parsers.pieces import PlainText
from client.endpoint.faults import wrong
from client.endpoint.live_answer import LiveAnswer
from client.endpoint.monitor import Monitor
from client.endpoint.stream_emitter import TextForm
from client.link.link_state import LinkState
from client.private.spans import SplitPrompt
from common.protocol.views import NodeView
from tests.client.demo.answers import answer as whole_answer

OPTIONS = AnswerOptions(STREAM, 16)


class Letters:
    """A tokenizer whose tokens are characters."""

    def decode(self, tokens, **_):
        return "".join(chr(token) for token in tokens)


def tokens(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


class FakeService:
    """A fake conversation that replays (committed, provisional) pairs, link states and what it has drafted itself, and
    returns or raises the last item."""

    end_tokens = (ord("\0"),)

    def __init__(self, *scenes):
        self._scenes = scenes
        self.seen = asyncio.Event()
        self.was_cancelled = False

    async def show(self, prompt, options, begin, watch, told):
        for scene in self._scenes:
            match scene:
                case SimpleNamespace():
                    begin(scene)
                    continue
                case (str(), str()):
                    watch(tokens(scene[0]), tokens(scene[1]))
                case LinkState():
                    told(scene)
                case Answer():
                    return scene
                case Exception():
                    raise scene
            try:
                self.seen.clear()
                await self.seen.wait()
            except asyncio.CancelledError:
                self.was_cancelled = True
                raise
        raise AssertionError("the scene has no end")


def monitor(state=LinkState.OFFLINE) -> Monitor:
    return Monitor(state, None, lambda: True)


def chosen(prompt=SplitPrompt((1,)), opening="", shown_tokens=None) -> Choice:  # noqa: B008
    form = TextForm((), PlainText(), shown_tokens or {}, ())
    return Choice(prompt, OPTIONS, form, is_verified=False, opening=opening)


async def shown(service, choice=chosen()) -> list[dict]:  # noqa: B008
    changes = []
    async with asyncio.timeout(20):
        async for change in LiveAnswer(service, Letters(), monitor(), choice).changes():
            changes.append(change)
            service.seen.set()
    return changes


def text_alone(change: dict) -> dict:
    return {name: told for name, told in change.items() if name in ("final", "provisional", "link")}


async def test_text_is_told_once_and_what_is_provisional_each_time_that_it_changes():
    changes = await shown(FakeService(("Once ", "upon"), ("", "upon a"), ("upon a time", ""), whole_answer()))
    assert [text_alone(change) for change in changes[:3]] == [
        {"final": "Once ", "provisional": "upon"},
        {"provisional": "upon a"},
        {"final": "upon a time", "provisional": ""},
    ]
    assert changes[-1]["end"]["stats"] == whole_answer().stats.as_dict()
    assert changes[-1]["end"]["unconfirmed"] == 0
    assert len(changes) == 4


async def test_the_link_is_told_with_the_text():
    changes = await shown(FakeService(LinkState.OFFLINE, ("", "alone"), LinkState.ONLINE, whole_answer()))
    assert changes[:3] == [{"link": "offline"}, {"provisional": "alone"}, {"link": "online"}]


async def test_what_nobody_has_judged_stays_where_it_was_offered():
    left = replace(whole_answer(), provisional=tokens("a fox"), finish_reason="offline")
    changes = await shown(FakeService(("Once ", "a"), left))
    assert changes[-1]["provisional"] == "a fox"
    assert changes[-1]["end"]["unconfirmed"] == 5
    assert changes[-1]["end"]["reason"] == "offline"


async def test_a_private_answer_says_so_first():
    changes = await shown(FakeService(("", "mine"), whole_answer()), chosen(SplitPrompt((1,), (2,))))
    assert changes[0] == {"private": True}


async def test_what_the_prompt_has_begun_to_think_begins_with_its_mark():
    changes = await shown(FakeService(("so", ""), whole_answer()), chosen(opening="<think>"))
    assert changes[0]["final"] == "<think>\nso"
    drafted = await shown(FakeService(("", "so"), ("so", ""), whole_answer()), chosen(opening="<think>"))
    assert [change["final"] for change in drafted[:2]] == ["<think>\n", "so"]


async def test_where_nothing_came_there_is_no_mark_either():
    changes = await shown(FakeService(LinkState.OFFLINE, wrong("messages", "too long")), chosen(opening="<think>"))
    assert [text_alone(change) for change in changes] == [{"link": "offline"}, {}]


async def test_marks_of_thinking_that_are_special_tokens_are_text_and_no_others():
    """A checkpoint with a description of its answers has all its special tokens told to its parser."""
    service = FakeService(("\1so\2Yes\3", ""), whole_answer())
    marks = {1: "<think>", 2: "</think>", 3: "<|channel|>"}
    changes = await shown(service, chosen(shown_tokens=marks))
    assert changes[0]["final"] == "<think>so</think>Yes\3"  # whose tokenizer leaves no token out


@pytest.mark.parametrize(
    ("fault", "message"),
    [(wrong("messages", "too long"), "too long"), (KeyError("cow"), "this endpoint failed: 'cow'")],
)
async def test_a_fault_is_a_sentence_behind_what_was_shown(fault, message):
    changes = await shown(FakeService(("Once ", ""), fault))
    assert changes[0]["final"] == "Once "
    assert changes[-1]["error"]["message"] == message


async def test_who_stops_ends_the_answer():
    service = FakeService(("Once ", "upon"), ("never", "never"))
    showing = LiveAnswer(service, Letters(), monitor(), chosen())
    async with asyncio.timeout(20), aclosing(showing.changes()) as changes:
        assert (await anext(changes))["final"] == "Once "
        showing.stop()
        assert [change async for change in changes] == []
    assert service.was_cancelled


async def test_committed_tokens_say_that_the_link_is_there_and_how_fast_it_is():
    watching = monitor(LinkState.OFFLINE)
    service = FakeService(("Once ", ""), whole_answer())
    async for _ in LiveAnswer(service, Letters(), watching, chosen()).changes():
        assert watching.link is LinkState.ONLINE
        service.seen.set()
    assert watching.status().tokens_per_second > 0


async def test_what_is_drafted_is_told_with_the_text_and_not_beyond_the_end():
    drafted = SimpleNamespace(
        drafted=(NodeView(1, 0, ord("a"), 5, -0.5), NodeView(2, 1, ord("b"), 6, -1.0)), carried=(1, 2)
    )
    changes = await shown(FakeService(drafted, ("fox", "ab"), ("", "abc"), whole_answer()))
    assert changes[0]["drafted"] == [[0, "a", 0.61], [1, "b", 0.37]]
    (commit,) = changes[0]["commits"]
    assert (commit["drafted"], commit["decided"]) == (["f", "o"], ["x"])
    assert 0 <= commit["at_s"] < 20
    assert [change["drafted"] for change in changes if "drafted" in change][1:] == [[]]
