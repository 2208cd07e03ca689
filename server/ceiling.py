"""What the memory of a server is bounded by, whatever its clients do. Data only."""

from dataclasses import asdict, dataclass

_GB = 1e9

STREAMS_A_SESSION = 4
"""Calls at a time: a session's stream, the one that takes its place, and who is told that there is no room."""

STREAMS_BESIDE = 64
"""Calls of no session: health checks, and drafts that are fetched."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Bytes are on the target's device. Own drafters hold K/V of a longest sequence each."""

    weights_bytes: int
    cache_bytes: int
    cache_tokens: int
    unused_tokens: int  # that were asked for, and that no number of sessions could fill
    sessions: int
    running: int
    streams: int
    own_drafters: int

    def as_dict(self) -> dict[str, int]:
        return asdict(self)

    def __str__(self) -> str:
        fewer = f"; {self.unused_tokens} tokens that were asked for are left out, for these sessions can use no more"
        return (
            f"{self.cache_tokens} tokens of K/V take {self.cache_bytes / _GB:.2g} GB beside "
            f"{self.weights_bytes / _GB:.2g} GB of weights; at most {self.sessions} sessions, of which {self.running} "
            f"answer at a time, {self.streams} streams and {self.own_drafters} drafters of the server's own"
            f"{fewer if self.unused_tokens else ''}"
        )
