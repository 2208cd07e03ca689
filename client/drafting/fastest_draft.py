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
from common.draft_kinds import DRAFT_KINDS, LOOKUP


@dataclass(frozen=True, slots=True)
class Compared(Depth):
    """A draft model at a depth."""

    draft: str


def fastest(compared: Iterable[Compared], round_trip: float) -> str:
    """What drafts fastest over a link with this round trip, in seconds, as `--draft` names it. `lookup` beside it costs
    nothing, and pays where text repeats."""
    return _beside_lookup(best_depth(compared, round_trip))


def _beside_lookup(best: Compared) -> str:
    return f"{best.draft}+{LOOKUP}"


def settle(choice: DraftChoice, loaders: Sequence[DraftLoader], times: LevelTimes) -> DraftChoice:
    """The choice with the draft model of these `loaders` by which a streaming answer comes fastest over their link,
    instead of `auto`, and `lookup` beside it. Those that nobody has measured after training or that cannot be timed
    are left out, and the server's first is taken where all are. Where the one that is taken lives on draft state and
    runs no layers of the target, the one that runs most stands in while the link is down.

    Raises OutriderError where a bundle is damaged.
    """
    compared = [each for loader in loaders for each in _compared(loader, times)]
    if not compared:
        return replace(choice, draft=None)
    if not all(each.worth.long_rounds for each in compared):  # compare by what was measured of all
        compared = [replace(each, worth=replace(each.worth, long_rounds=())) for each in compared]
    best = best_depth(compared, loaders[0].compared_round_trip)
    # Its depth is chosen again when it is loaded, so that it has a deeper one for an outage.
    return replace(choice, draft=_beside_lookup(best), stand_in=_stand_in(loaders, best.draft))


def _stand_in(loaders: Sequence[DraftLoader], taken: str) -> str | None:
    if any(each.manifest.draft == taken and DRAFT_KINDS[each.manifest.kind].state is None for each in loaders):
        return None  # it reads a question itself
    depths = {each.manifest.draft: max(each.worth(), default=0) for each in loaders if each.choice.layers is None}
    deepest = max(depths, key=depths.__getitem__, default=taken)
    return deepest if depths.get(deepest) and not depths[taken] else None


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
