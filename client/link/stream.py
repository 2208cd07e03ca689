"""What the stream of one session must be able to do, whatever carries it, and how the server is reached.

Knows no sessions and no drafting. Calls fail with sentences already, by `common.rpc.errors`.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from common.address import Address
from common.protocol.messages import FromClient, FromServer
from common.rpc.credentials import ClientTls
from common.rpc.stub import Connection, connect
from common.rpc.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server is and how it is addressed; `tls` is None for plaintext. At `others` are its replicas, which may
    be used in its place."""

    address: Address
    tls: ClientTls | None = None
    token: str | None = None
    others: tuple[Address, ...] = ()

    @property
    def addresses(self) -> tuple[Address, ...]:
        return self.address, *self.others

    def connect(self) -> Connection:
        """Raises MisuseError for broken credentials."""
        return connect(str(self.address), tls=self.tls, token=self.token)


class Stream(Protocol):
    """A session's stream, whatever carries it."""

    @property
    def traffic(self) -> Traffic: ...

    def send(self, message: FromClient) -> None:
        """Never waits; messages leave in order."""
        ...

    def receive(self) -> Awaitable[FromServer | None]:
        """The next message, None once the stream has ended or was closed. Raises LinkError if it is broken."""
        ...

    def close(self) -> None: ...
