"""Which replica of a server a client uses: the less loaded of two drawn at random, and another one when that is gone.

A session stays where it is, because its K/V are there; any other replica rebuilds it from its tokens. It may not know
sessions, bundles or what a stream carries.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from random import random
from types import TracebackType
from typing import Self

from client.errors import ServerRefusedError
from client.link.dial import dial
from client.link.stream import Access
from common.address import Address
from common.protocol.errors import MisuseError, OutriderError, PeerError
from common.protocol.messages import PROTOCOL_VERSION, FailureCode
from common.protocol.plain import plain
from common.rpc.description import ServerDescription
from common.rpc.stub import Connection

_log = logging.getLogger(__name__)

DESCRIBE_S = 20.0
_ASK_S = 4.0  # for a replica that is asked in place of another

_SEARCH_S = 4.0
"""So long replicas are searched for one in place of a full one, two pairs at least: the refusal is told afterwards."""

_LEAST_WAIT_S = 0.25
"""After the first of two replicas has answered, the other one may take as long again, and at least so long."""

_HEAD_START_S = 1.0
"""So long a session's own replica is dialled alone, and two are asked alone; most outages are the link's and not the
replica's."""

_GRACE_S = 0.5
"""So long it may still answer once another replica could be used: when a link comes back, all of them answer."""

_ROUND_PAUSE_S = 1.0  # before other replicas are asked again

_START_ANEW = "to use what it serves, start this program anew"

Uniform = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Replica:
    """One that has answered, on a connection that stands."""

    access: Access
    connection: Connection
    description: ServerDescription


async def describe(connection: Connection, seconds: float = DESCRIBE_S, model: str = "") -> ServerDescription:
    """The server's description of the target of that name, of its first if it is empty.

    Raises MisuseError if there is no such target, ServerRefusedError if the server speaks another protocol version,
    LinkError if it is absent, or says nothing for so many seconds."""
    try:
        description = await connection.describe(seconds, model)
    except PeerError as error:
        raise (MisuseError(str(error)) if model and error.code is FailureCode.INVALID else error) from error
    check_model(description, model)
    if description.version != PROTOCOL_VERSION:
        raise ServerRefusedError(
            f"the server speaks protocol version {description.version} and this client {PROTOCOL_VERSION}; "
            "upgrade the older of the two"
        )
    return description


def check_model(description: ServerDescription, model: str) -> None:
    """Raises MisuseError if a server has described another target than it was asked for, as a release does that has
    one, whatever it is asked for."""
    if model not in ("", description.model):
        raise MisuseError(f"this server has no model '{plain(model)}'; choose from: {description.model}")


async def choose_replica(
    access: Access,
    seconds: float = DESCRIBE_S,
    model: str = "",
    remembered: Sequence[Address] = (),
    uniform: Uniform = random,
) -> Replica:
    """The less loaded of two replicas that are drawn at random from those that the server lists, or from the given
    addresses if it lists none (the power of two choices, Mitzenmacher 2001). `remembered` is what it listed before: two
    of these are asked at once. The replica's `access` has the others behind it.

    Raises MisuseError if the two have different targets or draft models, or serve them otherwise, and as `describe` if
    none answers.
    """
    async with _Inquiry(access, model) as inquiry:
        expected = followed(access, remembered) or access.addresses
        shuffled = _shuffled(expected, uniform)
        # The given addresses come next, for all that was remembered may be gone.
        first_asked = dict.fromkeys((*shuffled[:2], *access.addresses, *shuffled[2:]))
        await inquiry.ask_until_answered(list(first_asked), seconds)
        answers = [each.description for each in inquiry.answered.values()]
        listed = followed(access, (each for answer in answers for each in answer.replicas)) or access.addresses
        drawn = list(inquiry.answered) if set(listed) == set(expected) else _shuffled(listed, uniform)[:2]
        await inquiry.ask([address for address in drawn if address not in inquiry.answered], _ASK_S)
        candidates = [inquiry.answered[address] for address in drawn if address in inquiry.answered]
        candidates = candidates or list(inquiry.answered.values())
        _check_alike(candidates)
        # The addresses that were given come last: behind them may be whichever replica there is.
        return inquiry.take(_less_loaded(candidates), (*listed, *access.addresses))


async def dial_replica(access: Access, expected: ServerDescription) -> tuple[Access, Connection]:
    """A connection to the replica at `access`, or to another one if that refuses, or does not answer while another
    does. Others are used only if they have the `expected` target and draft models.

    Raises and returns otherwise as `dial` does; if nothing answers, it goes on until it is cancelled.
    """
    async with _Inquiry(access, expected.model) as inquiry:
        own = asyncio.create_task(dial(access))
        other = asyncio.create_task(_other(inquiry, access, expected, own))
        taken: Connection | None = None
        try:
            await asyncio.wait({own, other}, return_when=asyncio.FIRST_COMPLETED)
            if not own.done():
                await asyncio.wait({own}, timeout=_GRACE_S)
            replica = None if _is_established(own) else await other
            if replica is None:
                taken = own.result()
                return access, taken
            moved = inquiry.take(replica, known(access, replica.description.replicas))
            return moved.access, moved.connection
        finally:
            for task in (own, other):
                task.cancel()
            connection, _ = await asyncio.gather(own, other, return_exceptions=True)
            if isinstance(connection, Connection) and connection is not taken:
                await connection.close()


async def choose_other(access: Access, expected: ServerDescription, full: Collection[Address]) -> Replica | None:
    """The less loaded of two replicas beside that at `access` and those that are `full`. They must have the `expected`
    target and draft models; None if none answers in `_SEARCH_S`, however many are silent."""
    async with _Inquiry(access, expected.model) as inquiry:
        others = _in_turn(access, [each for each in access.others if each not in full])
        replica: Replica | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(_SEARCH_S):
                replica = await _first_alike(inquiry, access, expected, others, _SEARCH_S / 2, _SEARCH_S / 2)
        return replica and inquiry.take(replica, known(access, replica.description.replicas))


async def _other(
    inquiry: "_Inquiry", access: Access, expected: ServerDescription, own: asyncio.Task[Connection]
) -> Replica | None:
    """Another replica, once one answers and `own` has had its head start; None if `own` is over and was established, or
    no other can be had."""
    await asyncio.wait({own}, timeout=_HEAD_START_S)
    while not _is_established(own):
        others = _in_turn(access, access.others)
        replica = await _first_alike(inquiry, access, expected, others, _ASK_S, _HEAD_START_S)
        if replica is not None or own.done():
            return replica
        await asyncio.wait({own}, timeout=_ROUND_PAUSE_S)
    return None


async def _first_alike(
    inquiry: "_Inquiry",
    access: Access,
    expected: ServerDescription,
    addresses: Sequence[Address],
    seconds: float,
    head_start_s: float,
) -> Replica | None:
    """Asks two at a time, each for so many seconds, until one that is a replica answers; the less loaded if two are."""
    is_alike = partial(inquiry.is_alike, access, expected)
    alike = await inquiry.ask_in_turn(addresses, seconds, head_start_s, is_alike)
    return _less_loaded(alike) if alike else None


def _in_turn(access: Access, addresses: Iterable[Address]) -> list[Address]:
    """At random, but those that the person gave right after the first two: all that a server listed may be gone."""
    shuffled = _shuffled(list(addresses))
    return shuffled[:2] + sorted(shuffled[2:], key=lambda each: each not in access.given)


def followed(access: Access, listed: Iterable[Address]) -> tuple[Address, ...]:
    """The addresses of a server's list that this client may use. Others than the person gave are used only if lists are
    trusted, and on this machine only if the server was dialled there: so no prompt leaves it in plain text, and no
    tunnel is bypassed."""
    here = access.address.is_loopback
    usable = (each for each in listed if each in access.given or (access.trusts_lists and each.is_loopback == here))
    return tuple(dict.fromkeys(usable))


def known(access: Access, listed: Iterable[Address]) -> tuple[Address, ...]:
    """The addresses that stand for a server once it has said this list: those of it that may be followed and those that
    the person gave, or, if none may be, those of before."""
    usable = followed(access, listed)
    return tuple(dict.fromkeys((*usable, *access.given))) if usable else access.addresses


def with_list(access: Access, listed: Iterable[Address]) -> Access:
    """The same server, with its new list of replicas behind it."""
    others = tuple(each for each in known(access, listed) if each != access.address)
    return replace(access, others=others, named=access.given)


def _check_alike(replicas: Sequence[Replica]) -> None:
    for other in replicas[1:]:
        differs = replicas[0].description.identity.difference(other.description.identity)
        if differs:
            raise MisuseError(
                f"the servers at {replicas[0].access.address} and {other.access.address} are no replicas: {differs}; "
                "name one of them with --server, or have their operator start all with the same --target, --draft, "
                "--cache-tokens, --dtype, --quantize and --batch-invariant or --fast"
            )


def _shuffled(addresses: Sequence[Address], uniform: Uniform = random) -> list[Address]:
    return sorted(addresses, key=lambda _: uniform())


def _less_loaded(replicas: Sequence[Replica]) -> Replica:
    """The first where they are equally loaded, which is one at random, because their order is."""
    return min(replicas, key=lambda each: each.description.load)


def _is_established(own: asyncio.Task[Connection]) -> bool:
    return own.done() and not own.cancelled() and own.exception() is None and own.result().is_ready


async def _any_suits(
    asking: Collection[asyncio.Task[list[Replica]]], suits: Callable[[Replica], bool], until_s: float
) -> bool:
    """Whether one of those that are asked answers by then, and suits; not later than all have failed."""
    loop = asyncio.get_running_loop()
    while not (found := any(each.done() and any(map(suits, each.result())) for each in asking)):
        waiting = [each for each in asking if not each.done()]
        left_s = until_s - loop.time()
        if not waiting or left_s <= 0:
            break
        await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
    return found


class _Inquiry:
    """Replicas that are asked what they are. Leaving it closes every connection but that of the one that was taken."""

    def __init__(self, access: Access, model: str):
        self.answered: dict[Address, Replica] = {}
        self._access = access
        self._model = model
        self._failure: OutriderError | None = None
        self._strangers = set[Address]()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for replica in self.answered.values():
            await replica.connection.close()

    def is_alike(self, access: Access, expected: ServerDescription, replica: Replica) -> bool:
        """One that is no replica of that at `access` is named once."""
        address = replica.access.address
        differs = expected.identity.difference(replica.description.identity)
        if differs and address not in self._strangers:
            self._strangers.add(address)
            _log.warning("%s is not used in place of %s: %s; %s", address, access.address, differs, _START_ANEW)
        return not differs

    def take(self, replica: Replica, known: Iterable[Address]) -> Replica:
        """The replica is the caller's now; the others that are `known` stand behind it."""
        del self.answered[replica.access.address]
        others = tuple(each for each in dict.fromkeys(known) if each != replica.access.address)
        return replace(replica, access=replace(replica.access, others=others, named=self._access.given))

    async def ask_until_answered(self, addresses: Sequence[Address], seconds: float) -> None:
        """As `ask_in_turn`, in so many seconds in all. Raises what the first of all raises if none answers."""
        head_start_s = min(_HEAD_START_S, 2 * seconds / max(1, len(addresses)))  # so that all are asked in time
        deadline_s = asyncio.get_running_loop().time() + seconds
        await self.ask_in_turn(addresses, seconds, head_start_s, lambda _: True, deadline_s)
        if not self.answered and self._failure is not None:
            raise self._failure

    async def ask_in_turn(
        self,
        addresses: Sequence[Address],
        seconds: float,
        head_start_s: float,
        suits: Callable[[Replica], bool],
        deadline_s: float = math.inf,
    ) -> list[Replica]:
        """Asks two, and the next two as well once these have failed or said nothing in their head start, until one
        that suits answers. A pair is asked for so many seconds, none beyond the deadline. Returns those that suit."""
        loop = asyncio.get_running_loop()
        asking: set[asyncio.Task[list[Replica]]] = set()
        try:
            for index in range(0, len(addresses), 2):
                pair, left_s = addresses[index : index + 2], deadline_s - loop.time()
                asking.add(asyncio.create_task(self.ask(pair, min(seconds, left_s))))
                # The last are waited for until all have failed.
                until_s = math.inf if index + 2 >= len(addresses) else loop.time() + head_start_s
                if await _any_suits(asking, suits, until_s):
                    break
        finally:
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return [self.answered[each] for each in addresses if each in self.answered and suits(self.answered[each])]

    async def ask(self, addresses: Sequence[Address], seconds: float) -> list[Replica]:
        """Those of these addresses that answer, within so many seconds and not much later than the first. Raises
        MisuseError for broken credentials."""
        loop = asyncio.get_running_loop()
        began, tasks = loop.time(), [asyncio.create_task(self._ask(address, seconds)) for address in addresses]
        waiting = set(tasks)
        try:
            while waiting and not any(task.done() and task.result() for task in tasks):
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if waiting:
                await asyncio.wait(waiting, timeout=max(_LEAST_WAIT_S, loop.time() - began))
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.result()  # raises what no other replica would do better, as broken credentials
        return [self.answered[address] for address in addresses if address in self.answered]

    async def _ask(self, address: Address, seconds: float) -> bool:
        access = replace(self._access, address=address)
        connection = access.connect()
        try:
            description = await describe(connection, seconds, self._model)
        except BaseException as error:  # it may be cancelled, because another replica has answered
            await connection.close()
            if not isinstance(error, OutriderError):
                raise
            self._failure = self._failure or error
            return False
        before = self.answered.pop(address, None)
        self.answered[address] = Replica(access, connection, description)
        if before is not None:  # of an earlier round, when it was no replica
            await before.connection.close()
        return True
