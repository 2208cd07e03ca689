"""Whose K/V go: what a pass rejected; and where slots are wanted, first cached prefixes that nobody uses, then those of
sessions on lease, then of finished sessions, which a next turn computes again; at last running answers fail, so that
others can go on.

It may not know streams or how passes are planned.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from common.integers import Integers
from common.models.slots import SlotPool
from server.fault_isolation import FaultIsolation
from server.passes.prefix_tree import PrefixTree
from server.sessions.entry import SessionEntry
from server.sessions.registry import SessionRegistry


class SlotReclaim:
    def __init__(
        self,
        pool: SlotPool,
        cache: PrefixTree,
        registry: SessionRegistry,
        pass_tokens: int,
        preempt: Callable[[SessionEntry], None],
    ):
        """A pass computes at most `pass_tokens` tokens. `preempt` fails a running session."""
        self._pool = pool
        self._cache = cache
        self._registry = registry
        self._pass_tokens = pass_tokens
        self._preempt = preempt

    @property
    def available(self) -> int:
        """Slots that are free, or hold only cached prefixes that nobody uses."""
        return self._pool.free + self._cache.evictable

    def make_available(self, due: Sequence[SessionEntry]) -> None:
        """Makes the slots for a pass of these sessions available, as far as that is possible without failing a running
        one; at least one slot, if any session is due. Nobody goes whose slots all belong to others too, who stay."""
        wanted = self._wanted(due)
        self._drop_leases(wanted)
        holders = [entry for entry in self._registry.entries if len(entry.sequence)]
        for entry in sorted(holders, key=lambda entry: entry.last_pass):
            if self.available >= wanted:
                return
            if not entry.is_running:
                entry.park()
        self._drop_leases(wanted)
        running = [entry for entry in holders if entry.is_running]
        while not self.available and wanted:
            # The one whose stream was opened last, which may have resumed a long answer.
            alone = [entry for entry in running if entry.sequence.frees_slots]
            running.remove(last := (alone or running)[-1])
            self._registry.lost_answers.add(last)
            self._preempt(last)
            self._drop_leases(1)

    def free(self, due: Sequence[SessionEntry]) -> None:
        """Frees the slots for a pass of these sessions, as far as they are available."""
        wanted = self._wanted(due)
        if self._pool.free < wanted:
            self._cache.evict(wanted - self._pool.free)

    def give_back(self, rejected: Mapping[SessionEntry, Integers], isolation: FaultIsolation[SessionEntry]) -> None:
        """Gives back the slots of each session that a pass filled in vain, which were never of its sequence."""

        def give(entries: Sequence[SessionEntry]) -> list[int]:
            slots = [rejected[entry] for entry in entries]
            self._pool.give(np.concatenate(slots))
            return [len(own) for own in slots]

        # All at once: the pool sorts and joins ranges once for the pass.
        isolation.call_together(list(rejected), give)

    def _wanted(self, due: Sequence[SessionEntry]) -> int:
        return min(self._pass_tokens, sum(entry.demand.tokens for entry in due))

    def _drop_leases(self, wanted: int) -> None:
        """Ends the oldest leases until so many slots are available, but none whose slots connected sessions use."""
        leases = self._registry.leases
        if self.available >= wanted or not len(leases):
            return
        used = {prefix for entry in self._registry.entries for prefix in entry.sequence.prefix_nodes}
        for entry in leases.entries:
            if self.available >= wanted:
                return
            own, prefix = len(entry.sequence) - entry.sequence.shared, entry.sequence.prefix
            if own or (entry.sequence.shared and prefix not in used):
                leases.drop(entry)
