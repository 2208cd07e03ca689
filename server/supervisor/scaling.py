"""How many replicas a fleet should have, by the answers that wait and those that run. Pure.

One more once an answer has waited for long or clients were refused for as long; one less once one replica fewer would
have been at most half full for far longer and no answer has waited for half as long; between both nothing changes. That
answers wait at this moment says nothing: each waits for the pass that runs. The least are made up for at once. It may
not know where the numbers come from.
"""

from dataclasses import dataclass, replace

UP_AFTER_S = 10.0
"""For so long an answer waits before a replica is added."""

DOWN_AFTER_S = 300.0
"""For so long a replica must have been superfluous before one is removed."""

_COMING_BACK_S = 5.0
"""A client that was refused is coming back; for so long it counts as refused."""

_SUPERFLUOUS = 0.5
"""A replica is superfluous while the others would have at most this part of their slots in use, and answers wait for
less than this part of what calls for one more: prompts may be too many for fewer replicas with most slots free."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most replicas, and the answers that one makes at a time."""

    least: int
    most: int
    slots: int


@dataclass(frozen=True, slots=True)
class Load:
    """Of all replicas together: answers that passes work on, answers that none has worked on yet, how long the one of
    these has waited that has waited longest, how many of them wait where no replica says for how long, as those of
    older versions, and how many clients were refused for want of room since the fleet began."""

    running: int = 0
    waiting: int = 0
    longest_wait_s: float = 0.0
    waiting_of_unknown_age: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Scaling:
    """What is remembered from one reading to the next: the replicas, and since when there are as many; since when
    clients are refused, and when one was last; since when answers wait of which it is not told for how long; and since
    when a replica is superfluous."""

    refused: int = 0
    replicas: int = 0
    since_s: float = 0.0
    refusing_since_s: float | None = None
    refused_s: float = 0.0
    unknown_age_since_s: float | None = None
    idle_since_s: float | None = None

    def after(self, load: Load, bounds: Bounds, replicas: int, now: float) -> tuple["Scaling", int]:
        """What to remember, and how many replicas there should be. Not to be asked while some start or drain: their
        loads say nothing of the fleet that is to come."""
        if replicas < (fewest := min(bounds.least, bounds.most)):  # as some have failed for good
            return Scaling(load.refused), fewest
        seen = self._seen(load, replicas, now)
        waited_s = max(load.longest_wait_s, _seconds(seen.unknown_age_since_s, now))
        is_refusing = seen.refused_s == now and _seconds(seen.refusing_since_s, now) >= UP_AFTER_S
        # What has waited since before the last replica came does not call for the next one at once.
        is_waiting = min(waited_s, now - seen.since_s) >= UP_AFTER_S
        if (is_waiting or is_refusing) and replicas < bounds.most:
            return Scaling(load.refused), replicas + 1
        has_room = load.running + load.waiting <= _SUPERFLUOUS * bounds.slots * (replicas - 1)
        waits_are_short = waited_s < _SUPERFLUOUS * UP_AFTER_S and seen.refusing_since_s is None
        idle_since_s = now if seen.idle_since_s is None else seen.idle_since_s
        seen = replace(seen, idle_since_s=idle_since_s if has_room and waits_are_short else None)
        if _seconds(seen.idle_since_s, now) >= DOWN_AFTER_S and replicas > bounds.least:
            return Scaling(load.refused), replicas - 1
        return seen, replicas

    def _seen(self, load: Load, replicas: int, now: float) -> "Scaling":
        # With another number, as after a failure, it is another question whether one is superfluous.
        known = self if replicas == self.replicas else replace(self, replicas=replicas, since_s=now, idle_since_s=None)
        unknown_age_since_s = now if known.unknown_age_since_s is None else known.unknown_age_since_s
        seen = replace(
            known,
            refused=load.refused,
            unknown_age_since_s=unknown_age_since_s if load.waiting_of_unknown_age else None,
        )
        if load.refused > self.refused:
            since_s = now if self.refusing_since_s is None else self.refusing_since_s
            return replace(seen, refusing_since_s=since_s, refused_s=now)
        is_over = now - self.refused_s > _COMING_BACK_S
        return replace(seen, refusing_since_s=None) if is_over else seen


def _seconds(since_s: float | None, now: float) -> float:
    return 0.0 if since_s is None else now - since_s
