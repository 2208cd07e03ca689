"""The interface of a wire, which connects two namespaces. Knows no particular wire."""

from dataclasses import dataclass
from typing import Protocol

from netem.links.namespaces.messages import EmulatorReport


@dataclass(frozen=True)
class NamespacePair:
    """Two connected namespaces, as file descriptors that the receiver closes."""

    near: int
    far: int


class Wire(Protocol):
    """It is opened once and closed once."""

    async def open(self) -> NamespacePair:
        """Raises LinkFailureError where this machine cannot make one."""
        ...

    async def close(self) -> None: ...

    async def report(self) -> EmulatorReport:
        """The counters so far."""
        ...
