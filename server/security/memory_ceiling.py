"""Upper bounds of the server's memory, whatever its clients do. Data only."""

from dataclasses import asdict, dataclass

from common.counted import counted, format_bytes
from common.rpc.channel import MAX_FROM_CLIENT_BYTES, METADATA_BYTES, UNREAD_BYTES
from common.sampling.constraint_program import MEMORY_BYTES
from common.sampling.grammar import MOST_KEPT
from server.constraint_compiler import AT_ONCE
from server.security.call_pools import LIMITS, CallKind

CONNECTION_BYTES = 64 * 1024
"""Of one connection, TLS and its buffers included."""

_CALL_BYTES = 64 * 1024 + METADATA_BYTES + UNREAD_BYTES
"""Of one call whose messages nobody has read."""

CONSTRAINT_BYTES = MEMORY_BYTES + 16 * 2**20
"""Of the process of one constraint: its limit, and what it changes of what it shares with others."""

_WAITING_FOR_A_REQUEST = tuple(kind for kind in CallKind if kind not in (CallKind.REFUSED, CallKind.ENDED))

_SUMMED = (
    "weights_bytes",
    "cache_bytes",
    "cache_tokens",
    "unused_tokens",
    "running",
    "own_drafters",
    "own_drafts_bytes",
)


@dataclass(frozen=True, slots=True)
class TargetMemory:
    """All bytes are on the target's device; those of the drafts that this server drafts with, once sessions have asked
    for each. A server drafter holds K/V of one longest sequence."""

    model: str
    weights_bytes: int
    cache_bytes: int
    cache_tokens: int
    unused_tokens: int  # that were asked for, and that no number of sessions could fill
    running: int
    own_drafters: int
    own_drafts_bytes: int

    def __str__(self) -> str:
        fewer = f"; {self.unused_tokens:,} tokens that were asked for are left out, for these sessions can use no more"
        drafts = f"{format_bytes(self.own_drafts_bytes)} of its drafts' weights, " if self.own_drafts_bytes else ""
        return (
            f"{format_bytes(self.cache_bytes)} of K/V for {self.cache_tokens:,} tokens, "
            f"{format_bytes(self.weights_bytes)} of weights, {drafts}"
            f"{counted(self.running, 'answer')} at a time"
            f"{fewer if self.unused_tokens else ''}"
        )


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Of a server with these targets."""

    targets: tuple[TargetMemory, ...]
    sessions: int
    connections: int

    @property
    def calls(self) -> int:
        """Calls without a session."""
        return sum(limits.calls for limits in LIMITS.values())

    @property
    def strangers_bytes(self) -> int:
        """The most that clients without a session can make the server hold: connections, calls, incomplete requests."""
        requests = sum(LIMITS[kind].calls for kind in _WAITING_FOR_A_REQUEST)
        return self.connections * CONNECTION_BYTES + self.calls * _CALL_BYTES + requests * MAX_FROM_CLIENT_BYTES

    @property
    def constraints(self) -> int:
        """Constraints without a session: those that are being compiled, and the last ones."""
        return AT_ONCE + MOST_KEPT * len(self.targets)

    def as_dict(self) -> dict[str, object]:
        """With the sums over all targets."""
        sums = {name: sum(getattr(target, name) for target in self.targets) for name in _SUMMED}
        of_strangers = {"calls": self.calls, "strangers_bytes": self.strangers_bytes, "constraints": self.constraints}
        return {**asdict(self), **sums, **of_strangers, "constraint_bytes": CONSTRAINT_BYTES}

    def __str__(self) -> str:
        targets = "; ".join(f"{target.model}: {target}" for target in self.targets)
        strangers = f"{format_bytes(self.strangers_bytes)} for clients without one"
        each, some = f"{format_bytes(CONSTRAINT_BYTES)} for each constraint", f"{self.constraints} of them"
        sessions = counted(self.sessions, "session")
        return f"{targets}; at most {sessions}, and {strangers}; {each}, {some} without a session"
