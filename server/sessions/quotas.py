"""Quotas of one client: sessions at a time, requests and tokens a minute. Pure: time is an argument, in seconds.

It may not know how a client proves who it is, nor sessions or streams.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from server.sessions.refusal import RefusalError, RefusalReason


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of a client; None where there is no limit. Tokens are those of prompts and answers."""

    max_sessions: int | None = None
    tokens_per_minute: int | None = None
    requests_per_minute: int | None = None


class Bucket:
    """A token bucket: it starts full with a minute's worth and refills evenly. Its level may become negative."""

    def __init__(self, per_minute: float):
        self._per_minute = per_minute
        self._level = per_minute
        self._filled_at = -math.inf

    def wait(self, now: float) -> float:
        """Seconds until at least one is left, 0 where it is."""
        self._fill(now)
        return max(0.0, 1 - self._level) * 60 / self._per_minute

    def take(self, amount: int, now: float) -> None:
        self._fill(now)
        self._level -= amount

    def _fill(self, now: float) -> None:
        self._level = min(self._per_minute, self._level + (now - self._filled_at) * self._per_minute / 60)
        self._filled_at = now


class Quotas:
    """Those of all clients, by name; a client without an allowance has no limits."""

    def __init__(self, allowances: Mapping[str, Allowance]):
        self._allowances = dict(allowances)
        self._tokens = _buckets({name: each.tokens_per_minute for name, each in allowances.items()})
        self._requests = _buckets({name: each.requests_per_minute for name, each in allowances.items()})

    def max_sessions(self, client: str) -> float:
        allowance = self._allowances.get(client)
        return math.inf if allowance is None or allowance.max_sessions is None else allowance.max_sessions

    def check(self, client: str, now: float) -> None:
        """Raises RefusalError where the client may not begin an answer now."""
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


def _buckets(limits: Mapping[str, int | None]) -> dict[str, Bucket]:
    return {name: Bucket(limit) for name, limit in limits.items() if limit is not None}


def _used_up(reason: RefusalReason, client: str, what: str, wait: float) -> RefusalError:
    return RefusalError(reason, f"'{client}' has used up its {what}; come back in {math.ceil(wait)} s", wait)
