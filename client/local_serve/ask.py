"""Asks a running `outrider serve` instead of loading anything: `outrider run`'s end of the socket.

What shows an answer is imported while it is being computed. It may import neither torch, transformers nor grpc.
"""

import json
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from client.errors import BrokenOffError
from client.local_serve.running import Running, UnsafeError, connected, find_running, own_version
from common.address import parse_destination
from common.cache import cache_directory
from common.protocol.errors import MisuseError, OutriderError

_ACCEPT_SECONDS = 5.0  # for a process on this machine to say whether it will answer
_END_SECONDS = 2.0  # after Ctrl-C, for what there is of the answer

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """What of the command line is said to the running `outrider serve`: option groups as dataclasses."""

    credentials: Any
    answer: Any
    offline: Any
    choice: Mapping[str, Any]
    """What a drafter is loaded with."""
    pace_draft: float


def _request(server: str, options: Options, asked: Event) -> Event:
    said = asdict(options.credentials)
    paths = {name: str(value.absolute()) for name, value in said.items() if isinstance(value, Path)}
    return {
        "server": server,
        "credentials": {"paths": paths, "words": {name: said[name] for name in said if name not in paths}},
        "answer": asdict(options.answer),
        "offline": asdict(options.offline),
        "choice": dict(options.choice),
        "pace_draft": options.pace_draft,
        **asked,
    }


class _BrokenError(Exception):
    """The running `outrider serve` is gone."""


class _Events:
    """What the other end says, and goes on saying after Ctrl-C, which a generator would not survive."""

    def __init__(self, connection: socket.socket):
        self._lines = connection.makefile("rb")

    def close(self) -> None:
        """Leaves the connection as it is."""
        self._lines.close()

    def next(self) -> Event:
        """Raises _BrokenError where there is no more."""
        try:
            line = self._lines.readline()
            event = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            event = None
        if not isinstance(event, dict):
            raise _BrokenError
        return event


def answered(
    cache: Path | None,
    server: str,
    prompt: str,
    options: Options,
    loaded: Callable[[], None],
    *,
    raw: bool,
    as_json: bool,
) -> bool:
    """Whether a running `outrider serve` of this user for the server at this address has answered; `loaded` is called
    before anything is shown. Where another one runs that cannot answer, one line says why.

    Raises OutriderError where no answer comes, or not all of it.
    """
    is_live = not as_json and sys.stdout.isatty()
    begun = begin(cache, server, options, {"prompt": prompt, "raw": raw, "json": as_json, "live": is_live})
    if isinstance(begun, str):
        tell_loading(begun, loaded)
        return False
    with closing(begun.connection):
        return _Showing(begun.connection, loaded, as_json=as_json).show(begun.events)


@dataclass(frozen=True, slots=True)
class Begun:
    """A connection to one that has `accepted` a request."""

    connection: socket.socket
    events: "_Events"
    accepted: Event


def begin(cache: Path | None, server: str, options: Options, asked: Event) -> Begun | str:
    """Why there is none, where there is none; empty where that is nobody's concern."""
    try:
        server = str(parse_destination(server))
    except MisuseError:
        return ""  # which is told where it is loaded
    connection, why = _find(cache_directory(cache), server)
    if connection is None:
        return why
    events = _Events(connection)
    accepted = _accepted(connection, events, _request(server, options, asked))
    if isinstance(accepted, str):
        connection.close()
        return accepted
    return Begun(connection, events, accepted)


def tell_loading(why: str, loaded: Callable[[], None] = lambda: None) -> None:
    """Says nothing where there is no reason."""
    if why:
        loaded()
        sys.stderr.write(f"{why}; the draft is loaded here\n")
        sys.stderr.flush()


def _find(cache: Path, server: str) -> tuple[socket.socket | None, str]:
    """A connection, or why there is none; empty where there is nothing to say."""
    try:
        running, ours = find_running(cache), own_version()
    except UnsafeError as error:
        return None, f"no running `outrider serve` is asked, because {error}"
    except OSError:
        return None, ""
    for each in running:
        if (each.version, each.server) == (ours, server):
            connection = connected(each, _ACCEPT_SECONDS)
            if connection is not None:
                return connection, ""
    for each in running:
        connection = connected(each, _ACCEPT_SECONDS)
        if connection is not None:
            connection.close()
            return None, _unfit(each, ours, server)
    return None, ""


def _unfit(running: Running, version: str, server: str) -> str:
    if running.version != version:
        return f"the running `outrider serve` is of another version ({running.version}, this is {version})"
    return f"the running `outrider serve` asks the server at {running.server}, not {server}"


def _accepted(connection: socket.socket, events: _Events, request: Event) -> Event | str:
    """What it says where it will answer; else why it will not, empty where that is nobody's concern."""
    try:
        connection.sendall(json.dumps({"version": own_version(), **request}).encode() + b"\n")
        event = events.next()
        connection.settimeout(None)
    except (OSError, _BrokenError):
        return ""
    if event.get("accepted"):
        return event
    return str(event.get("declined", ""))


class _Showing:
    def __init__(self, connection: socket.socket, loaded: Callable[[], None], *, as_json: bool):
        from client.terminal.render import SilentRenderer, renderer_for
        from common.programs.console import PlainConsole

        self._connection = connection
        self._as_json = as_json
        self._notes = PlainConsole(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
        self._renderer = SilentRenderer() if as_json else renderer_for(PlainConsole(), time.monotonic)
        self._has_shown = False
        self._has_ended = False
        loaded()

    def show(self, events: _Events) -> bool:
        """Whether it was shown: False where the other end is gone before anything was to be seen."""
        try:
            return self._show_all(events)
        except KeyboardInterrupt:
            with suppress(OSError, _BrokenError):
                self._connection.shutdown(socket.SHUT_WR)
                self._connection.settimeout(_END_SECONDS)
                while not self._has_ended:
                    self._show(events.next())
            raise
        except _BrokenError:
            if not self._has_shown:
                return False
            if not self._has_ended:
                self._renderer.end("")
            raise BrokenOffError("the running `outrider serve` is gone; ask again") from None

    def _show_all(self, events: _Events) -> bool:
        while not self._show(events.next()):
            pass
        return True

    def _show(self, event: Event) -> bool:
        """Whether that was the last one."""
        match event:
            case {"write": final, "provisional": provisional}:
                self._has_shown |= bool(not self._as_json and (final or provisional))
                self._renderer.write(final, lambda: provisional)
            case {"redraw": provisional}:
                self._has_shown |= bool(not self._as_json and provisional)
                self._renderer.redraw(lambda: provisional)
            case {"end": unconfirmed}:
                self._has_shown, self._has_ended = True, True
                self._renderer.end(unconfirmed)
            case {"note": note}:
                self._notes.print(note, style="dim", markup=False)
            case {"failed": sentence, "misuse": is_misuse}:
                raise (MisuseError if is_misuse else OutriderError)(sentence)
            case {"result": _, "stats": _, "notes": _, "failure": _}:
                self._show_outcome(event)
                return True
        return False

    def _show_outcome(self, event: Event) -> None:
        from client.terminal.outcome import Outcome, show_outcome

        show_outcome(Outcome.from_dict(event), self._notes, as_json=self._as_json)
