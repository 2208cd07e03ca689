"""What joins two namespaces: the interface that the ways of joining them share. Knows none of them."""

from dataclasses import dataclass
from typing import Protocol

from netem.links.namespaces.talk import Report


@dataclass(frozen=True)
class Joined:
    """Two namespaces with a link between them, by descriptors that the receiver closes."""

    near: int
    far: int


class Wire(Protocol):
    """Opened once, closed once."""

    async def open(self) -> Joined:
        """Raises LinkFailureError where this machine cannot make one."""
        ...

    async def close(self) -> None: ...

    async def report(self) -> Report:
        """What it has carried so far."""
        ...
