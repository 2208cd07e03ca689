"""What is done while the server is out of reach."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from client.link.offline import DEFAULT_LIMIT_TOKENS, DEFAULT_WAIT_S
from common.programs.command_line import one_of
from common.protocol.errors import MisuseError

if TYPE_CHECKING:
    from client.link.offline import OfflineOptions

OfflineLimit = Annotated[
    int, typer.Option("--offline-limit", min=0, metavar="TOKENS", help="Most tokens to draft while offline.")
]
OfflineWait = Annotated[
    float,
    typer.Option(
        "--offline-wait",
        min=0,
        metavar="SECONDS",
        help="How long to wait for the server when the offline draft has ended; longer while a long prompt is sent.",
    ),
]
OnReconnect = Annotated[
    str,
    typer.Option(
        "--on-reconnect",
        autocompletion=one_of("verify", "keep"),
        help="What to do with text drafted offline: verify it, or keep it as it is.",
    ),
]

_KEEP, _VERIFY = "keep", "verify"


@dataclass(frozen=True, slots=True)
class OfflineFlags:
    """What is to be done while the server is out of reach; each field is an option."""

    offline_limit: OfflineLimit = DEFAULT_LIMIT_TOKENS
    offline_wait: OfflineWait = DEFAULT_WAIT_S
    on_reconnect: OnReconnect = _VERIFY

    def options(self) -> "OfflineOptions":
        """Raises MisuseError for an unknown wish."""
        from client.link.offline import OfflineOptions

        if self.on_reconnect not in (_VERIFY, _KEEP):
            raise MisuseError(f"--on-reconnect is {_VERIFY} or {_KEEP}, not '{self.on_reconnect}'")
        return OfflineOptions(self.offline_limit, self.offline_wait, self.on_reconnect == _KEEP)
