"""The replicas of one fleet: what each says of itself, and which of them clients are sent to. Pure.

It may not know the store in which this is kept, nor sessions.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from common.address import Address, parse_destination
from common.protocol.errors import MisuseError
from common.protocol.plain import is_plain
from common.rpc.description import TargetIdentity
from common.rpc.description_checks import MOST_REPLICAS


@dataclass(frozen=True, slots=True)
class Member:
    """One replica. `id` is made anew at each start; `address` is where clients dial it, one for all behind a load
    balancer, and None while it drains. `sessions` are those of each client, by its token's name."""

    id: str
    address: Address | None
    targets: tuple[TargetIdentity, ...]
    sessions: Mapping[str, int]

    def difference(self, other: "Member") -> str:
        """What makes the other no replica of this one, as a half sentence; empty if nothing does."""
        if len(self.targets) != len(other.targets):
            return f"one has {len(self.targets)} targets and the other {len(other.targets)}"
        for ours, theirs in zip(self.targets, other.targets, strict=True):
            if differs := ours.difference(theirs):
                return differs
            if ours.model != theirs.model:
                return f"the same target is called {ours} and {theirs}"
        return ""

    def record(self) -> str:
        """What the store keeps of it."""
        address = None if self.address is None else str(self.address)
        fields: dict[str, Any] = {"address": address, "sessions": dict(self.sessions)}
        fields["targets"] = [[each.model, each.fingerprint, dict(each.drafts)] for each in self.targets]
        # Apart, for releases that know only the three.
        fields["computed"] = [[each.context, each.numerics] for each in self.targets]
        return json.dumps(fields)


def read_member(identity: str, record: str) -> Member:
    """Raises ValueError for what no replica of this release wrote."""
    try:
        fields = json.loads(record)
        named = fields["targets"]
        computed = fields.get("computed", [[0, ""]] * len(named))
        targets = tuple(_identity(*each, *how) for each, how in zip(named, computed, strict=True))
        sessions = {str(client): int(count) for client, count in fields["sessions"].items()}
        address = fields["address"]
        if address is None:
            return Member(identity, None, targets, sessions)
        if not is_plain(address):
            raise ValueError
        return Member(identity, parse_destination(address), targets, sessions)
    except (MisuseError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError("no replica of this release wrote this") from error


def _identity(model: Any, fingerprint: Any, drafts: Any, context: Any, numerics: Any) -> TargetIdentity:
    bundles = {str(name): str(bundle) for name, bundle in drafts.items()}
    return TargetIdentity(str(model), str(fingerprint), bundles, int(context), str(numerics))


def alike(own: Member, others: Sequence[Member]) -> tuple[Address, ...]:
    """The addresses of the replicas that a session of this one can go on at, in a fixed order. It is one of them, and
    none is one that drains. Of more than clients take, each replica lists others."""
    ours = set[Address]() if own.address is None else {own.address}
    fitting = {each.address for each in others if each.address is not None and not own.difference(each)} - ours
    return tuple(sorted((*ours, *drawn(fitting, str(own.address), MOST_REPLICAS - len(ours))), key=str))


def drawn(addresses: Iterable[Address], key: str, most: int) -> list[Address]:
    """At most so many of them, drawn by rendezvous hashing (Thaler and Ravishankar 1998): so what is drawn with a key
    changes only where the fleet does, and each is drawn with about as many keys."""
    return sorted(addresses, key=lambda each: sha256(f"{key} {each}".encode()).digest())[:most]


def sessions_elsewhere(own: Member, others: Sequence[Member]) -> dict[str, int]:
    """The sessions of each client on the other replicas."""
    counts = Counter[str]()
    for each in others:
        if each.id != own.id:
            counts.update(each.sessions)
    return dict(counts)
