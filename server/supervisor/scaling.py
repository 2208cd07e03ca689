"""How many replicas a fleet should have, by the answers that wait and those that run. Pure.

One more once answers have waited for long, one less once one replica fewer would have been at most half full for far
longer; between both nothing changes. The least are made up for at once. It may not know where the numbers come from.
"""

from dataclasses import dataclass, replace

UP_AFTER_S = 10.0
"""For so long answers wait before a replica is added."""

DOWN_AFTER_S = 300.0
"""For so long a replica must have been superfluous before one is removed."""

_STILL_WAITING_S = 5.0
"""A client that was refused is coming back; for so long it counts as waiting."""

_SUPERFLUOUS = 0.5
"""A replica is superfluous while the others would have at most this part of their places in use."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most replicas, and the answers that one makes at a time."""

    least: int
    most: int
    places: int


@dataclass(frozen=True, slots=True)
class Load:
    """Of all replicas together: answers that passes work on, answers that none has worked on yet, and how many clients
    were refused for want of room since the fleet began."""

    running: int
    waiting: int
    refused: int


@dataclass(frozen=True, slots=True)
class Scaling:
    """What is remembered from one reading to the next: the replicas, since when answers wait, when one waited last, and
    since when a replica is superfluous."""

    refused: int = 0
    replicas: int = 0
    waiting_since_s: float | None = None
    waited_s: float = 0.0
    idle_since_s: float | None = None

    def after(self, load: Load, bounds: Bounds, replicas: int, now: float) -> tuple["Scaling", int]:
        """What to remember, and how many replicas there should be. Not to be asked while some start or drain: their
        loads say nothing of the fleet that is to come."""
        if replicas < (fewest := min(bounds.least, bounds.most)):  # as some have failed for good
            return Scaling(load.refused), fewest
        seen = self._seen(load, bounds, replicas, now)
        if seen.waited_s == now and _lasts(seen.waiting_since_s, UP_AFTER_S, now) and replicas < bounds.most:
            return Scaling(load.refused), replicas + 1
        if _lasts(seen.idle_since_s, DOWN_AFTER_S, now) and replicas > bounds.least:
            return Scaling(load.refused), replicas - 1
        return seen, replicas

    def _seen(self, load: Load, bounds: Bounds, replicas: int, now: float) -> "Scaling":
        seen = replace(self, refused=load.refused, replicas=replicas)
        if load.waiting or load.refused > self.refused:
            since = now if self.waiting_since_s is None else self.waiting_since_s
            return replace(seen, waiting_since_s=since, waited_s=now, idle_since_s=None)
        if self.waiting_since_s is not None and now - self.waited_s <= _STILL_WAITING_S:
            return seen
        is_idle = load.running <= _SUPERFLUOUS * bounds.places * (replicas - 1)
        # With one fewer, as after a failure, it is another question whether one is superfluous.
        known_since = self.idle_since_s if replicas == self.replicas else None
        idle_since = (now if known_since is None else known_since) if is_idle else None
        return replace(seen, waiting_since_s=None, idle_since_s=idle_since)


def _lasts(since: float | None, bound_s: float, now: float) -> bool:
    return since is not None and now - since >= bound_s
