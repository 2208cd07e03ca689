"""Upper bounds of the server's memory, whatever its clients do. Data only."""

from dataclasses import asdict, dataclass

from common.rpc.channel import MAX_FROM_CLIENT_BYTES, METADATA_BYTES, UNREAD_BYTES
from server.security.call_pools import LIMITS, CallKind

_GB = 1e9

CONNECTION_BYTES = 64 * 1024
"""Of one connection, TLS and its buffers included."""

_CALL_BYTES = 64 * 1024 + METADATA_BYTES + UNREAD_BYTES
"""Of one call whose messages nobody has read."""

_WAITING_FOR_A_REQUEST = tuple(kind for kind in CallKind if kind not in (CallKind.REFUSED, CallKind.ENDED))


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Bytes of weights and cache are on the target's device. Each server drafter holds K/V of one longest sequence."""

    weights_bytes: int
    cache_bytes: int
    cache_tokens: int
    unused_tokens: int  # that were asked for, and that no number of sessions could fill
    sessions: int
    running: int
    connections: int
    own_drafters: int

    @property
    def calls(self) -> int:
        """Calls without a session."""
        return sum(limits.calls for limits in LIMITS.values())

    @property
    def strangers_bytes(self) -> int:
        """The most that clients without a session can make the server hold: connections, calls, incomplete requests."""
        requests = sum(LIMITS[kind].calls for kind in _WAITING_FOR_A_REQUEST)
        return self.connections * CONNECTION_BYTES + self.calls * _CALL_BYTES + requests * MAX_FROM_CLIENT_BYTES

    def as_dict(self) -> dict[str, int]:
        return {**asdict(self), "calls": self.calls, "strangers_bytes": self.strangers_bytes}

    def __str__(self) -> str:
        fewer = f"; {self.unused_tokens} tokens that were asked for are left out, for these sessions can use no more"
        return (
            f"{self.cache_tokens} tokens of K/V take {self.cache_bytes / _GB:.2g} GB beside "
            f"{self.weights_bytes / _GB:.2g} GB of weights; at most {self.sessions} sessions, of which {self.running} "
            f"answer at a time; at most {self.strangers_bytes / _GB:.2g} GB for {self.connections} connections and "
            f"{self.calls} calls of no session; at most {self.own_drafters} drafters of the server's own"
            f"{fewer if self.unused_tokens else ''}"
        )
