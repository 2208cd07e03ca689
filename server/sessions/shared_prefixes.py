"""Shared prefixes: which sessions may share K/V, when they look for them in the prefix cache and give theirs to it, and
who waits while another session computes the same tokens.

It may not know streams, time, how passes are run, or what happens when all slots are taken.
"""

import math
from collections.abc import Callable, Collection, Hashable, Mapping

from common.models.slots import SlotPool
from server.passes.prefix_tree import PrefixTree
from server.passes.sequence import HeldSequence
from server.sessions.counters import Counters
from server.sessions.entry import SessionEntry, SessionKey

LEAST_RUN = 64
"""Tokens that a session gives to the cache at a time, and for which it waits for another session, so that nodes are
few. A prompt's last tokens are given, however few, where other sessions share all before them: they may wait."""

_OWNERS: Mapping[str, Callable[[SessionKey], Hashable]] = {
    "client": lambda key: key[0],
    "server": lambda key: "",
    "never": lambda key: key,
}
"""Whose sessions share prefixes, by the option that says so (`SHARE_PREFIXES` of `server/options.py`)."""


class SharedPrefixes:
    def __init__(self, pool: SlotPool, sharing: str, counters: Counters):
        self.cache = PrefixTree(pool)
        self._owner = _OWNERS[sharing]
        self._counters = counters

    def new_sequence(self, key: SessionKey) -> HeldSequence:
        return HeldSequence(self.cache, self._owner(key))

    def adopt_cached(self, entry: SessionEntry) -> bool:
        """Gives a session what is cached of its sequence, where no pass has computed anything for its answer or it
        waits; returns whether that is anything. The last token is always computed, as a root needs its logits. No pass
        may be running."""
        sequence, session = entry.sequence, entry.session
        if not entry.may_adopt or not sequence.is_cached(session.tree.tokens[sequence.shared]):
            return False
        before = len(sequence)
        sequence.adopt(session.tree.tokens, session.tree.frontier - 1)
        session.processed = len(sequence)
        entry.computed.adopt(before, session.tree.tokens[before : len(sequence)])
        self._counters.prefix_cache_hits += len(sequence) - before
        return len(sequence) > before

    def without_waiting(self, due: Collection[SessionEntry]) -> list[SessionEntry]:
        """Of sessions that lack the same tokens the one that has computed most of them, or whose request came first;
        the others wait for its K/V, and it is scheduled as if it were the oldest of them. Nobody waits for a session
        that takes no part in this pass."""
        reading = [entry for entry in due if entry.to_compute > 0]
        leaders: dict[Hashable, SessionEntry] = {}
        for entry in sorted(reading, key=lambda each: (-each.session.processed, each.requested_at_s)):
            start, tree = entry.sequence.shared, entry.session.tree
            ahead = tuple(tree.tokens[start : min(start + LEAST_RUN, tree.frontier - 1)])
            token, run = (entry.sequence.prefix, ahead[0]), (entry.sequence.prefix, ahead)
            leader = leaders.get(token if entry.waits else run)
            entry.waits, entry.waited_for_since = leader is not None, math.inf
            if leader is not None:
                leader.waited_for_since = min(leader.waited_for_since, entry.requested_at_s)
                continue
            leaders.setdefault(token, entry)
            if len(ahead) == LEAST_RUN:
                leaders.setdefault(run, entry)
        return [entry for entry in due if entry.to_compute <= 0 or not entry.waits]

    def publish(self, entry: SessionEntry, is_of_prompt: bool) -> None:
        """Gives what passes computed for a session to the cache, once that is enough; `is_of_prompt` says what the last
        one computed. No pass may be running."""
        sequence = entry.sequence
        own = len(sequence) - sequence.shared
        # An answer's tokens come one at a time, and as nodes of one token they would never be a range of slots again.
        ends_prompt = is_of_prompt and entry.to_compute <= 0
        if own >= LEAST_RUN or (own and ends_prompt and sequence.is_followed):
            sequence.publish(entry.session.tree.tokens)
