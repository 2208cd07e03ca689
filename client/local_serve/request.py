"""Asks a running `outrider serve` to answer `outrider run` or `outrider chat`, before either loads anything.

It may import neither asyncio, torch, transformers nor grpc, and may not know what is done with a connection.
"""

import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from client.local_serve.messages import (
    Accepted,
    BlockingConnection,
    ConnectionLostError,
    Declined,
    Fields,
    ServeRequest,
)
from client.local_serve.running import Running, UnsafeError, connected, find_running, own_version
from common.address import parse_destinations, written
from common.cache import cache_directory
from common.protocol.errors import MisuseError

if TYPE_CHECKING:
    from client.options.answers import AnswerFlags
    from client.options.connection import Credentials
    from client.options.outages import OfflineFlags
    from client.text import Question

_ACCEPT_S = 5.0  # for each reply before an answer begins; a slower `outrider serve` is not used


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The options of a command that a running `outrider serve` has to know; `choice` are those that a drafter is loaded
    with."""

    credentials: "Credentials"
    answer: "AnswerFlags"
    offline: "OfflineFlags"
    choice: Mapping[str, str | int | None]
    pace_draft_ms: float = 0.0

    def request(self, server: str, question: "Question | None", **shown: bool) -> ServeRequest:
        """To the server at this address; `shown` are the last fields of a `ServeRequest`."""
        values = asdict(self.credentials)
        paths = {name: str(value.absolute()) for name, value in values.items() if isinstance(value, Path)}
        credentials: dict[str, Fields] = {
            "paths": paths,
            "values": {name: value for name, value in values.items() if name not in paths},
        }
        return ServeRequest(
            own_version(),
            server,
            credentials,
            asdict(self.answer),
            asdict(self.offline),
            dict(self.choice),
            self.pace_draft_ms,
            None if question is None else asdict(question),
            **shown,
        )


def send_request(
    cache: Path | None, server: str, options: RequestOptions, question: "Question | None", **shown: bool
) -> BlockingConnection | Declined:
    """Sends a request (see `RequestOptions.request`) to a running `outrider serve` for this server. Returns the
    connection on which it was accepted, with a time limit for what it receives; otherwise why not."""
    try:
        server = written(parse_destinations(server))
    except MisuseError:
        return Declined("")  # reported when the command uses the address itself
    found = _find(cache_directory(cache), server)
    if isinstance(found, Declined):
        return found
    connection = BlockingConnection(found)
    try:
        connection.send(options.request(server, question, **shown))
        reply = connection.receive()
    except (OSError, ConnectionLostError):
        reply = Declined("")
    if isinstance(reply, Accepted):
        return connection
    connection.close()
    return reply if isinstance(reply, Declined) else Declined("")


def loaded_here_line(declined: Declined) -> str:
    """What a person must know if a running `outrider serve` was not used."""
    return f"{declined.reason}; the draft is loaded here"


def _find(cache: Path, server: str) -> socket.socket | Declined:
    """A connection; otherwise why there is none, without a reason if no `outrider serve` runs."""
    try:
        running, ours = find_running(cache), own_version()
    except UnsafeError as error:
        return Declined(f"no running `outrider serve` is asked, because {error}")
    except OSError:
        return Declined("")
    for each in running:
        if (each.version, each.server) == (ours, server):
            connection = connected(each, _ACCEPT_S)
            if connection is not None:
                return connection
    for each in running:
        connection = connected(each, _ACCEPT_S)
        if connection is not None:
            connection.close()
            return Declined(_difference(each, ours, server))
    return Declined("")


def _difference(running: Running, version: str, server: str) -> str:
    if running.version != version:
        return f"the running `outrider serve` is of another version ({running.version}, this is {version})"
    return f"the running `outrider serve` asks the server at {running.server}, not {server}"
