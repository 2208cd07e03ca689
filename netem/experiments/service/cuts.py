"""A link that is broken again and again while apps are answered, at moments drawn from a seed."""

import asyncio
import random
from collections import Counter

from netem.experiments.torture.plan import Kind
from netem.links.breakable import BreakableProxy

_APART_SECONDS = (2.0, 15.0)  # from one cut to the next
_SILENT_SECONDS = (0.3, 4.0)
_KINDS = (Kind.RESET, Kind.BLACKHOLE, Kind.MOVE)


async def cut_again_and_again(proxy: BreakableProxy, made: Counter[Kind], seed: int) -> None:
    """Until it is cancelled, which leaves a link that stands."""
    dice = random.Random(seed)
    try:
        while True:
            await asyncio.sleep(dice.uniform(*_APART_SECONDS))
            kind = dice.choice(_KINDS)
            made[kind] += 1
            if kind is Kind.RESET:
                proxy.reset()
            elif kind is Kind.MOVE:
                proxy.move()
            else:
                proxy.go_silent()
                await asyncio.sleep(dice.uniform(*_SILENT_SECONDS))
                proxy.resume()
    finally:
        proxy.resume()
