"""The messages between the emulator's process and its parent, one line of JSON each. Shapes only, no emulation."""

import json
import socket
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from netem.links.portable import from_json, to_json
from netem.links.profile import LinkProfile
from netem.links.trace import Trace

_READ_BYTES = 65536

REPORT, CUT, RESTORE = b"?", b"-", b"+"
"""What the parent asks of the emulator once it carries packets, a byte each; only a report is answered."""


@dataclass(frozen=True)
class EmulatorRequest:
    """The link that the parent requests. congestion: None keeps the system's. record: report traces too."""

    profile: LinkProfile
    congestion: str | None
    record: bool

    def to_line(self) -> bytes:
        return _line([to_json(self.profile), self.congestion, self.record])

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        profile, congestion, record = json.loads(line)
        return cls(from_json(profile), congestion, record)


@dataclass(frozen=True)
class EmulatorReply:
    """The reply: the descriptors of both namespaces come with it, or `error` says why there is no link."""

    error: str | None = None

    def to_line(self) -> bytes:
        return _line(asdict(self))

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        return cls(**json.loads(line))


@dataclass
class PacketCounters:
    """Counts of one direction. dropped: the queue was full, or the packet was lost. late: delivered over 1 ms too
    late."""

    packets: int = 0
    bytes: int = 0
    dropped: int = 0
    late: int = 0


@dataclass(frozen=True)
class EmulatorReport:
    """What the link has carried so far; traces only where they are recorded."""

    up: PacketCounters = field(default_factory=PacketCounters)
    down: PacketCounters = field(default_factory=PacketCounters)
    trace_up: Trace | None = None
    trace_down: Trace | None = None

    def to_line(self) -> bytes:
        return _line(asdict(self))

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        fields = json.loads(line)
        return cls(
            PacketCounters(**fields["up"]),
            PacketCounters(**fields["down"]),
            _trace(fields["trace_up"]),
            _trace(fields["trace_down"]),
        )


def read_line(connection: socket.socket) -> bytes:
    """The next line; empty where the other side has closed the connection."""
    line = b""
    while not line.endswith(b"\n"):
        received = connection.recv(_READ_BYTES)
        if not received:
            return b""
        line += received
    return line


def _line(content: Any) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _trace(fields: dict[str, Any] | None) -> Trace | None:
    return None if fields is None else Trace(tuple(fields["opportunities_ms"]))
