"""What a person saw of an answer whose link was gone for a while, from what the screen showed and when.

Pure arithmetic on moments and tokens. It may not know links, clocks or drafters.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from common.protocol.prefix import common_prefix


@dataclass(frozen=True, slots=True)
class Picture:
    """The screen from this moment on: so many final tokens, and the provisional ones behind them."""

    at: float
    final: int
    provisional: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outage:
    begins: float
    ends: float

    @property
    def lasts(self) -> float:
        return self.ends - self.begins


@dataclass(frozen=True, slots=True)
class Bounds:
    """So many tokens at most are written alone, and so many an answer has."""

    alone: int
    answer: int


@dataclass(frozen=True, slots=True)
class Seen:
    """`offered`: provisional tokens on the screen when the server was first heard again; the target has confirmed the
    first `survived` of them. `pause`: the longest time from the beginning of the outage on in which nothing new came
    to the screen although the answer was not written to its end, in seconds. `repaired`: seconds from the end of the
    outage until all that is shown beyond what survived is the target's own."""

    offered: int
    survived: int
    pause: float
    repaired: float


def watch_outage(
    pictures: Sequence[Picture], answer: Sequence[int], outage: Outage, ends: Set[int], bounds: Bounds
) -> Seen:
    """`pictures` in order, of an answer that was whole in the end; a run is written to its end behind one of `ends` and
    at its bounds. Raises ValueError where the answer was over before the outage was."""
    heard = next(
        (place for place in range(1, len(pictures)) if _is_news(pictures, place) and pictures[place].at >= outage.ends),
        None,
    )
    if heard is None:
        raise ValueError("the answer was over before the outage was")
    before = pictures[heard - 1]
    survived = common_prefix(before.provisional, answer[before.final :])
    judged = min(before.final + survived + 1, len(answer))
    repaired = next(picture.at for picture in pictures[heard:] if picture.final >= judged)
    is_full = len(before.provisional) >= min(bounds.alone, bounds.answer - before.final)
    is_whole = is_full or not ends.isdisjoint(before.provisional[-1:])
    changes = [later.at for earlier, later in pairwise(pictures[:heard]) if _differ(earlier, later)]
    moments = [outage.begins, *(at for at in changes if at > outage.begins)]
    if not is_whole:
        moments.append(pictures[heard].at)
    pause = max((later - earlier for earlier, later in pairwise(moments)), default=0.0)
    return Seen(len(before.provisional), survived, pause, repaired - outage.ends)


def _is_news(pictures: Sequence[Picture], place: int) -> bool:
    return pictures[place].final > pictures[place - 1].final


def _differ(one: Picture, other: Picture) -> bool:
    return (one.final, one.provisional) != (other.final, other.provisional)
