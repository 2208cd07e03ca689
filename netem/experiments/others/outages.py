"""What a person has of an answer whose link breaks in its middle, for some seconds or for good. Knows no tables."""

import asyncio
import time
from dataclasses import dataclass
from itertools import pairwise

from client.demo.children import LinkSwitch
from netem.experiments.others.heard import Heard
from netem.experiments.others.systems import LinkedSystem
from netem.experiments.references import Reference

FOR_GOOD = float("inf")
_LOOKS_S = 0.002
_GIVES_UP_S = 60.0
"""Longer than any client waits by what it was told."""


@dataclass(frozen=True, slots=True)
class BrokenAnswer:
    """reference: transformers' own answer. lasted_s: of the outage. cut_s: when the link was cut, since the request;
    NaN where the answer was whole before. had: tokens until then."""

    reference: Reference
    lasted_s: float
    heard: Heard
    cut_s: float
    had: int

    @property
    def silent_s(self) -> float:
        """The longest time from the cut to the answer's end without a final token."""
        times = [self.cut_s, *(at for at, _ in self.heard.arrivals if at > self.cut_s), self.heard.seconds]
        return max(later - earlier for earlier, later in pairwise(times))

    @property
    def ended_s(self) -> float:
        """From the cut to the answer's end, whole or not."""
        return self.heard.seconds - self.cut_s


async def break_link(
    linked: LinkedSystem, reference: Reference, new_tokens: int, after_tokens: int, lasted_s: float
) -> BrokenAnswer:
    """Cuts the link when `after_tokens` have come, and restores it `lasted_s` seconds later, or once the answer has
    ended."""
    await linked.system.connect()
    heard = Heard(time.perf_counter)
    switch = LinkSwitch(linked.link)
    asking = asyncio.create_task(linked.system.ask(reference.prompt, new_tokens, heard))
    cut_s, had = float("nan"), 0
    try:
        async with asyncio.timeout(_GIVES_UP_S):
            while not asking.done() and (had := len(heard.tokens)) < after_tokens:
                await asyncio.sleep(_LOOKS_S)
            if not asking.done():
                switch.turn(cut=True)
                cut_s = heard.clock() - heard.began_s
                await asyncio.wait([asking], timeout=None if lasted_s == FOR_GOOD else lasted_s)
                switch.turn(cut=False)
            await asking
    except TimeoutError:
        heard.error = f"nothing after {_GIVES_UP_S:.0f} s"
        heard.finish()
    finally:
        asking.cancel()
        switch.turn(cut=False)
    return BrokenAnswer(reference, lasted_s, heard, cut_s, had)
