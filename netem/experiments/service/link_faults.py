"""Breaks a link again and again while apps are answered, at times drawn from a seed."""

import asyncio
import random
from collections import Counter

from netem.experiments.torture.fault_injector import inject_link_fault
from netem.experiments.torture.plan import FaultKind
from netem.links.breakable import BreakableProxy

_INTERVAL_S = (2.0, 15.0)  # from one fault to the next
_SILENT_S = (0.3, 4.0)
KINDS = (FaultKind.RESET, FaultKind.BLACKHOLE, FaultKind.MOVE)


async def inject_link_faults(proxy: BreakableProxy, injected: Counter[FaultKind], seed: int) -> None:
    """Runs until it is cancelled; the link carries afterwards. injected: counts the faults."""
    dice = random.Random(seed)
    try:
        while True:
            await asyncio.sleep(dice.uniform(*_INTERVAL_S))
            kind = dice.choice(KINDS)
            injected[kind] += 1
            await inject_link_fault(proxy, kind, dice.uniform(*_SILENT_S) if kind is FaultKind.BLACKHOLE else 0.0)
    finally:
        proxy.resume()
