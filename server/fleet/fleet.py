"""The fleet as one server sees it: it says what it is, hears of the others, and counts quotas with them.

An asyncio shell around `members` and the store. It may not know passes; nothing here is waited for by an answer.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from common.clock import Clock
from common.protocol.errors import MisuseError, OutriderError
from server.fault_isolation import describe_error
from server.fleet.members import Member, alike, read_member, sessions_elsewhere
from server.sessions.quotas import BucketUse, Quotas

_log = logging.getLogger(__name__)

INTERVAL_S = 0.5
"""From one exchange to the next: so long a client may use its quota on several replicas before they know."""

EXPIRY_S = 5.0
"""A replica that has not been heard of for so long is no longer listed."""


class StoreError(OutriderError):
    """The store cannot be reached, or holds what is not ours."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The records of all replicas by their ids, and the levels of all buckets that are not full, by name."""

    members: Mapping[str, str]
    levels: Mapping[str, float]


class FleetStore(Protocol):
    """What replicas share, wherever it is kept."""

    @property
    def name(self) -> str: ...

    async def exchange(self, member: str, record: str, uses: Mapping[str, BucketUse]) -> Exchanged:
        """Keeps what the replica with this id says of itself and has used, and returns what all have said. Raises
        StoreError."""
        ...

    async def leave(self, member: str) -> None:
        """Forgets this replica, and lets the store go. Raises StoreError."""
        ...


class Fleet:
    """While the store cannot be used this server goes on, alone: it lists the replicas that it knew, and enforces whole
    quotas by itself."""

    def __init__(
        self,
        store: FleetStore,
        own: Member,
        quotas: Quotas,
        sessions: Callable[[], Mapping[str, int]],
        clock: Clock = time.monotonic,
    ):
        """`own` is what this server says of itself, with the `sessions` that each client has at that time."""
        self.addresses = alike(own, ())
        self._store = store
        self._own = own
        self._quotas = quotas
        self._sessions = sessions
        self._clock = clock
        self._is_reached = True
        self._exchanging = asyncio.Lock()  # between what is offered and what is agreed nothing else is offered
        self._strangers: frozenset[str] = frozenset()
        self._unreadable: frozenset[str] = frozenset()

    async def join(self) -> None:
        """Raises MisuseError if another replica has another target or draft models than this one, or serves it
        otherwise."""
        until = self._clock() + EXPIRY_S
        while stranger := self._stranger(await self._exchange()):
            # It may have been killed, and the store has not forgotten it yet: with its fleet, or at this address.
            if self._clock() >= until:
                await self.leave()
                raise MisuseError(
                    f"{self._own.address} is no replica of {stranger.address}, which is in the same fleet: "
                    f"{self._own.difference(stranger)}; give both the same --target, --draft, --cache-tokens, --dtype, "
                    "--quantize and --batch-invariant or --fast, or another database of the store"
                )
            await asyncio.sleep(INTERVAL_S)

    def _stranger(self, others: Sequence[Member]) -> Member | None:
        """One that is no replica of this one."""
        return next((each for each in others if self._own.difference(each)), None)

    async def run(self) -> None:
        """Exchanges until it is cancelled."""
        task = asyncio.current_task()
        assert task is not None
        # redis-py 8.1 swallows a cancellation that comes while it connects; a server would never drain.
        while not task.cancelling():
            await asyncio.sleep(INTERVAL_S)
            self._note_strangers(await self._exchange())

    async def drain(self) -> None:
        """Clients are sent elsewhere from now on; what the answers that are left use is counted by all, as long as
        `run` goes on."""
        self._own = replace(self._own, address=None)
        await self._exchange()

    async def leave(self) -> None:
        """What was used since the last exchange is handed in, but not waited for where that one failed, and this
        replica is forgotten; to be called once `run` has ended."""
        async with self._exchanging:
            if self._is_reached:
                await self._exchange_alone()
        try:
            await self._store.leave(self._own.id)
        except StoreError as error:
            _log.warning("%s; it forgets this replica and its sessions by itself", error)

    async def _exchange(self) -> Sequence[Member]:
        """The other replicas that do not drain; none while the store cannot be used."""
        async with self._exchanging:
            return await self._exchange_alone()

    async def _exchange_alone(self) -> Sequence[Member]:
        own = replace(self._own, sessions=self._sessions())
        uses = self._quotas.offer(self._clock())
        try:
            found = await self._store.exchange(own.id, own.record(), uses)
        # Whatever a store holds, it ends no server.
        except Exception as error:
            self._quotas.lose()
            self._note_lost(str(error) if isinstance(error, OutriderError) else describe_error(error))
            return []
        others = self._readable({member: record for member, record in found.members.items() if member != own.id})
        self._quotas.agree(found.levels, sessions_elsewhere(own, others), self._clock())
        self.addresses = alike(own, others)
        self._note_back()
        return [each for each in others if each.address is not None]

    def _readable(self, records: Mapping[str, str]) -> list[Member]:
        """Those of another release are named once and left out."""
        members, unreadable = list[Member](), set[str]()
        for member, record in records.items():
            try:
                members.append(read_member(member, record))
            except ValueError as error:
                unreadable.add(member)
                if member not in self._unreadable:
                    _log.warning("a replica in the store at %s is left out: %s", self._store.name, error)
        self._unreadable = frozenset(unreadable)
        return members

    def _note_lost(self, why: str) -> None:
        if self._is_reached:
            _log.warning("%s; until it can, each replica enforces whole quotas by itself", why)
        self._is_reached = False

    def _note_back(self) -> None:
        if not self._is_reached:
            _log.warning("the store at %s is back; quotas are counted together again", self._store.name)
        self._is_reached = True

    def _note_strangers(self, others: Sequence[Member]) -> None:
        differing = {str(each.address): self._own.difference(each) for each in others}
        strangers = frozenset(address for address, differs in differing.items() if differs)
        for address in sorted(strangers - self._strangers):
            _log.warning("no client is sent from here to %s, which is no replica: %s", address, differing[address])
        self._strangers = strangers
