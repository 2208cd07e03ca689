"""When a link is cut and restored around an answer, and what is noted of it."""

import asyncio
import math
import signal
from dataclasses import dataclass, field

import pytest

from netem.experiments.others.heard import Heard
from netem.experiments.others.outages import FOR_GOOD, BrokenAnswer, break_link
from netem.experiments.others.systems import LinkedSystem
from netem.experiments.references import Reference

REFERENCE = Reference((1,), (2, 3, 4, 5), (1.0,) * 4)


@dataclass
class Link:
    """A link that carries or not, turned by the signals of `outrider-lab proxy`."""

    carries: bool = True
    turns: list[bool] = field(default_factory=list)

    def send_signal(self, number: signal.Signals) -> None:
        self.carries = number == signal.SIGUSR2
        self.turns.append(self.carries)


@dataclass
class OneTokenAtATime:
    """gives_up_s: how long it waits for its link."""

    link: Link
    gives_up_s: float = 10.0

    async def connect(self) -> None:
        assert self.link.carries

    async def ask(self, prompt, new_tokens, heard: Heard) -> None:
        for token in REFERENCE.answer:
            await asyncio.sleep(0.02)
            waited = heard.clock()
            while not self.link.carries:
                if heard.clock() - waited > self.gives_up_s:
                    heard.error = "the link is gone"
                    heard.finish()
                    return
                await asyncio.sleep(0.005)
            heard.hear([token])
        heard.finish()


async def broken(lasted_s: float, after: int = 2, gives_up_s: float = 10.0) -> tuple[BrokenAnswer, Link]:
    link = Link()
    linked = LinkedSystem(OneTokenAtATime(link, gives_up_s), link)
    return await break_link(linked, REFERENCE, 8, after, lasted_s), link


async def test_an_answer_goes_on_when_the_link_is_back():
    answer, link = await broken(0.2)
    assert (answer.had, answer.heard.tokens, answer.heard.error) == (2, REFERENCE.answer, "")
    assert 0.2 <= answer.silent_s < answer.ended_s
    assert link.turns[:2] == [False, True]


async def test_a_link_that_is_gone_for_good_is_restored_once_the_client_gives_up():
    answer, link = await broken(FOR_GOOD, gives_up_s=0.1)
    assert (answer.heard.tokens, answer.heard.error) == (REFERENCE.answer[:2], "the link is gone")
    assert answer.silent_s == pytest.approx(answer.ended_s)
    assert link.carries


async def test_an_answer_that_was_whole_before_is_not_cut():
    answer, link = await broken(0.2, after=9)
    assert math.isnan(answer.cut_s)
    assert False not in link.turns
