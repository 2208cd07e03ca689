"""Quotas of one client: sessions at a time, requests and tokens a minute. Pure: time is an argument, in seconds.

It may not know how a client proves who it is, nor sessions or streams, nor how replicas exchange what they count.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from server.refusal import AdmissionRefusedError, RefusalReason


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of a client; None where there is no limit. Tokens are those of prompts and answers."""

    max_sessions: int | None = None
    tokens_per_minute: int | None = None
    requests_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class BucketUse:
    """What one replica knows of a bucket that several fill and empty together. `total` is what it has used since it
    began, by which a store that knows it counts nothing twice; `used` is what it does not know to be counted. Of either
    at most `most` counts."""

    per_minute: float
    total: float
    used: float
    level: float

    @property
    def most(self) -> float:
        """A minute's worth, and what is owed: the rest was used so long ago that it has been refilled since."""
        return self.per_minute + max(0.0, -self.level)


class Bucket:
    """A token bucket: it starts full with a minute's worth and refills evenly. Its level may become negative.

    Replicas share one by exchanging what each has used. Of what could not be exchanged for long, a minute's worth and
    what is owed count, so that a client does not have to make up for what each replica has allowed it meanwhile.
    """

    def __init__(self, per_minute: float):
        self._per_minute = per_minute
        self._level = per_minute
        self._filled_at = -math.inf
        self._total = 0.0
        self._offered = 0.0
        self._shared = 0.0

    def wait(self, now: float) -> float:
        """Seconds until at least one is left, 0 where it is."""
        self._fill(now)
        return max(0.0, 1 - self._level) * 60 / self._per_minute

    def take(self, amount: int, now: float) -> None:
        self._fill(now)
        self._level -= amount
        self._total += amount

    def offer(self, now: float) -> BucketUse | None:
        """What the other replicas have to know; None if it is full. `agree` follows once they know it."""
        self._fill(now)
        self._offered = self._total
        used = self._total - self._shared
        if not used and self._level >= self._per_minute:
            return None
        return BucketUse(self._per_minute, self._total, used, self._level)

    def agree(self, level: float | None, now: float) -> None:
        """The level of all replicas, None for a full one, once they know what was offered."""
        self._level = (self._per_minute if level is None else level) - (self._total - self._offered)
        self._filled_at, self._shared = now, self._offered

    def _fill(self, now: float) -> None:
        self._level = min(self._per_minute, self._level + (now - self._filled_at) * self._per_minute / 60)
        self._filled_at = now


class Quotas:
    """Those of all clients, by name; a client without an allowance has no limits."""

    def __init__(self, allowances: Mapping[str, Allowance]):
        self._allowances = dict(allowances)
        self._tokens = _buckets({name: each.tokens_per_minute for name, each in allowances.items()})
        self._requests = _buckets({name: each.requests_per_minute for name, each in allowances.items()})
        self._elsewhere: Mapping[str, int] = {}

    def sessions_elsewhere(self, client: str) -> int:
        """Sessions that the client has on other replicas."""
        return self._elsewhere.get(client, 0)

    def max_sessions(self, client: str) -> float:
        allowance = self._allowances.get(client)
        return math.inf if allowance is None or allowance.max_sessions is None else allowance.max_sessions

    def check(self, client: str, now: float) -> None:
        """Raises AdmissionRefusedError where the client may not begin an answer now."""
        requests, tokens = self._requests.get(client), self._tokens.get(client)
        if requests is not None and (wait := requests.wait(now)):
            limit = self._allowances[client].requests_per_minute
            raise _used_up(RefusalReason.QUOTA_REQUESTS, client, f"requests, {limit} a minute", wait)
        if tokens is not None and (wait := tokens.wait(now)):
            limit = self._allowances[client].tokens_per_minute
            raise _used_up(RefusalReason.QUOTA_TOKENS, client, f"tokens, {limit} a minute", wait)

    def requested(self, client: str, now: float) -> None:
        if client in self._requests:
            self._requests[client].take(1, now)

    def used(self, client: str, tokens: int, now: float) -> None:
        """A running answer goes on, even where its client has used up its quota."""
        if client in self._tokens:
            self._tokens[client].take(tokens, now)

    # Several replicas.

    def offer(self, now: float) -> dict[str, BucketUse]:
        """What the other replicas have to know, by the names of buckets. Then comes `agree` or `lose`."""
        offered = {name: bucket.offer(now) for name, bucket in self._shared()}
        return {name: use for name, use in offered.items() if use is not None}

    def agree(self, levels: Mapping[str, float], elsewhere: Mapping[str, int], now: float) -> None:
        """The levels of all replicas, once they know what was offered; a bucket without one is full. `elsewhere` are
        the sessions of each client on other replicas."""
        self._elsewhere = elsewhere
        for name, bucket in self._shared():
            bucket.agree(levels.get(name), now)

    def lose(self) -> None:
        """The other replicas cannot be reached: each counts for itself."""
        self._elsewhere = {}

    def _shared(self) -> Iterator[tuple[str, Bucket]]:
        for kind, buckets in (("tokens", self._tokens), ("requests", self._requests)):
            for client, bucket in buckets.items():
                yield f"{kind} {client}", bucket


def _buckets(limits: Mapping[str, int | None]) -> dict[str, Bucket]:
    return {name: Bucket(limit) for name, limit in limits.items() if limit is not None}


def _used_up(reason: RefusalReason, client: str, what: str, wait: float) -> AdmissionRefusedError:
    return AdmissionRefusedError(reason, f"'{client}' has used up its {what}; come back in {math.ceil(wait)} s", wait)
