"""Observations on an answer with an outage, from the states of the screen and their times.

Pure arithmetic on times and tokens. It may not know links, clocks or drafters.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from common.protocol.prefix import common_prefix


@dataclass(frozen=True, slots=True)
class ScreenState:
    """The screen from the time `at` on, in seconds: the number of final tokens, and the provisional ones behind
    them."""

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
class LengthLimits:
    """The most tokens: `alone` without a link, `answer` in the whole answer."""

    alone: int
    answer: int


@dataclass(frozen=True, slots=True)
class OutageObservation:
    """offered: the number of provisional tokens on the screen at the first commit after the outage. survived: how many
    of
    them the target confirmed. pause: the longest time in seconds, from the beginning of the outage on, in which nothing
    new was shown although the answer was not at its end. repaired: seconds from the end of the outage until a final
    token
    follows those that survived.
    """

    offered: int
    survived: int
    pause: float
    repaired: float


def watch_outage(
    states: Sequence[ScreenState], answer: Sequence[int], outage: Outage, ends: Set[int], bounds: LengthLimits
) -> OutageObservation:
    """states: in order, of a complete answer. ends: end tokens; drafting stops at one of them and at its bounds.

    Raises ValueError where the answer ended before the outage did.
    """
    heard = next(
        (index for index in range(1, len(states)) if _is_news(states, index) and states[index].at >= outage.ends),
        None,
    )
    if heard is None:
        raise ValueError("the answer was over before the outage was")
    before = states[heard - 1]
    survived = common_prefix(before.provisional, answer[before.final :])
    judged = min(before.final + survived + 1, len(answer))
    repaired = next(picture.at for picture in states[heard:] if picture.final >= judged)
    is_full = len(before.provisional) >= min(bounds.alone, bounds.answer - before.final)
    is_whole = is_full or not ends.isdisjoint(before.provisional[-1:])
    changes = [later.at for earlier, later in pairwise(states[:heard]) if _differ(earlier, later)]
    moments = [outage.begins, *(at for at in changes if at > outage.begins)]
    if not is_whole:
        moments.append(states[heard].at)
    pause = max((later - earlier for earlier, later in pairwise(moments)), default=0.0)
    return OutageObservation(len(before.provisional), survived, pause, repaired - outage.ends)


def _is_news(states: Sequence[ScreenState], index: int) -> bool:
    return states[index].final > states[index - 1].final


def _differ(one: ScreenState, other: ScreenState) -> bool:
    return (one.final, one.provisional) != (other.final, other.provisional)
