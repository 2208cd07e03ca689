"""Whose K/V go where slots are wanted: first cached prefixes that nobody uses, then those of sessions on lease, then of
finished sessions, which a next turn computes again; at last running answers fail, so that others can go on.

It may not know streams or how passes are planned.
"""

from collections.abc import Callable

from common.models.slots import SlotPool
from server.passes.prefix_tree import PrefixTree
from server.sessions.entry import SessionEntry
from server.sessions.registry import SessionRegistry


class SlotReclaim:
    def __init__(
        self, pool: SlotPool, cache: PrefixTree, registry: SessionRegistry, preempt: Callable[[SessionEntry], None]
    ):
        """`preempt` fails a running session."""
        self._pool = pool
        self._cache = cache
        self._registry = registry
        self._preempt = preempt

    @property
    def available(self) -> int:
        """Slots that are free, or hold only cached prefixes that nobody uses."""
        return self._pool.free + self._cache.evictable

    def make_available(self, wanted: int) -> None:
        """Makes so many slots available, as far as that is possible without failing a running session; at least one,
        if any are wanted."""
        while self.available < wanted and self._registry.leases.drop_oldest():
            pass
        holders = [entry for entry in self._registry.entries if len(entry.sequence)]
        for entry in sorted(holders, key=lambda entry: entry.served):
            if self.available >= wanted:
                return
            if not entry.is_running:
                entry.park()
        running = [entry for entry in holders if entry.is_running]
        while not self.available and wanted:
            # The one whose stream was opened last, which may have resumed a long answer.
            self._preempt(running.pop())

    def free(self, wanted: int) -> None:
        """Frees so many slots, as far as they are available."""
        if self._pool.free < wanted:
            self._cache.evict(wanted - self._pool.free)
