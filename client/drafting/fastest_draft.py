"""`--draft auto`: of the draft models that a server offers, the one that drafts fastest here.

What may live here: which draft models are compared, and on what. It may not know servers, or how bundles are fetched.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from client.cache.level_times import LevelTimes
from client.drafting.depth import Depth, best_depth
from client.drafting.draft_loader import DraftChoice, DraftLoader
from common.draft_kinds import LOOKUP


@dataclass(frozen=True, slots=True)
class Compared(Depth):
    """A draft model at a depth."""

    draft: str


def fastest(compared: Iterable[Compared], round_trip: float) -> str:
    """What drafts fastest over a link with this round trip, in seconds, as `--draft` names it. `lookup` beside it costs
    nothing, and pays where text repeats."""
    return f"{best_depth(compared, round_trip).draft}+{LOOKUP}"


def settle(choice: DraftChoice, loaders: Sequence[DraftLoader], times: LevelTimes) -> DraftChoice:
    """The choice with the draft model of these `loaders` by which a streaming answer comes fastest over their link, in
    the place of `auto`, and `lookup` beside it. Those that nobody has measured after training or that cannot be timed
    are left out, and the server's first is taken where all are.

    Raises OutriderError where a bundle is damaged.
    """
    compared = [each for loader in loaders for each in _compared(loader, times)]
    if not compared:
        return replace(choice, draft=None)
    if not all(each.worth.long_rounds for each in compared):  # compare by what was measured of all
        compared = [replace(each, worth=replace(each.worth, long_rounds=())) for each in compared]
    # Its depth is chosen again when it is loaded, so that it has a deeper one for an outage.
    return replace(choice, draft=fastest(compared, loaders[0].compared_round_trip))


def _compared(loader: DraftLoader, times: LevelTimes) -> Iterator[Compared]:
    from client.drafting.needed_memory import TooLargeError

    choice, manifest = loader.choice, loader.manifest
    for layers, worth in sorted(loader.worth().items()):
        if choice.layers not in (None, layers):
            continue
        key = " ".join((manifest.id, str(layers), choice.device, choice.dtype, choice.weights, str(choice.threads)))
        try:
            seconds = times.of(key, partial(loader.time_level, layers))
        except TooLargeError:
            continue
        if math.isfinite(seconds):
            yield Compared(layers, worth, seconds, manifest.draft)
