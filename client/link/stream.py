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
    be used in its place. `named` are the addresses that the person gave, empty while these are `addresses`;
    `follow_replicas` says that the person trusts a server's list of others, whatever checks them."""

    address: Address
    tls: ClientTls | None = None
    token: str | None = None
    others: tuple[Address, ...] = ()
    named: tuple[Address, ...] = ()
    follow_replicas: bool = False

    @property
    def addresses(self) -> tuple[Address, ...]:
        return self.address, *self.others

    @property
    def given(self) -> tuple[Address, ...]:
        return self.named or self.addresses

    @property
    def trusts_lists(self) -> bool:
        """Whether prompts and the bearer token may go to addresses that only a server named: where an authority of the
        person's choosing has certified each of them, or the person says so."""
        return self.follow_replicas or (self.tls is not None and self.tls.ca is not None)

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
