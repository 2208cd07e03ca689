"""`outrider run`'s end of the socket: shows the answer of a running `outrider serve`.

What shows an answer is imported while it is being computed. It may import neither torch, transformers nor grpc.
"""

import socket
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from client.errors import BrokenOffError
from client.local_serve import messages
from client.local_serve.messages import BlockingConnection, ConnectionLostError, Declined
from client.local_serve.request import RequestOptions, send_request
from common.protocol.errors import OutriderError

if TYPE_CHECKING:
    from client.text import Question

_END_S = 2.0  # after Ctrl-C, for the end of the answer


def answer_by_serve(
    cache: Path | None,
    server: str,
    question: "Question",
    options: RequestOptions,
    loaded: Callable[[], None],
    *,
    as_json: bool,
) -> Declined | None:
    """None if a running `outrider serve` of this user has answered, otherwise why not. `loaded` is called before
    anything is shown.

    Raises OutriderError if no answer comes, or not all of it.
    """
    is_live = not as_json and sys.stdout.isatty()
    connection = send_request(cache, server, options, question, is_shown=not as_json, is_live=is_live)
    if isinstance(connection, Declined):
        return connection
    with closing(connection):
        connection.socket.settimeout(None)
        return None if _AnswerDisplay(connection, loaded, as_json=as_json).show() else Declined("")


class _AnswerDisplay:
    def __init__(self, connection: BlockingConnection, loaded: Callable[[], None], *, as_json: bool):
        from client.terminal.render import SilentRenderer, renderer_for
        from common.programs.console import PlainConsole

        self._connection = connection
        self._as_json = as_json
        self._notes = PlainConsole(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
        self._renderer = SilentRenderer() if as_json else renderer_for(PlainConsole(), time.monotonic)
        self._has_shown = False
        self._has_ended = False
        loaded()

    def show(self) -> bool:
        """Whether the answer was shown: False if the connection is lost before anything was."""
        try:
            while not self._show(self._connection.receive()):
                pass
        except KeyboardInterrupt:
            with suppress(OSError, ConnectionLostError, OutriderError):
                self._connection.socket.shutdown(socket.SHUT_WR)
                self._connection.socket.settimeout(_END_S)
                while not self._has_ended:
                    self._show(self._connection.receive())
            if not self._has_ended:
                self._renderer.end("")
            raise
        except ConnectionLostError:
            if not self._has_shown:
                return False
            if not self._has_ended:
                self._renderer.end("")
            raise BrokenOffError("the running `outrider serve` is gone; ask again") from None
        return True

    def _show(self, message: messages.Message) -> bool:
        """Whether that was the last one. Raises OutriderError if there is no answer."""
        match message:
            case messages.Text(final, provisional):
                self._has_shown |= bool(not self._as_json and (final or provisional))
                if final:
                    self._renderer.write(final, lambda: provisional)
                else:  # the sender has paced it
                    self._renderer.redraw(lambda: provisional)
            case messages.Redraw(provisional):
                self._has_shown |= bool(not self._as_json and provisional)
                self._renderer.redraw(lambda: provisional)
            case messages.TextEnd(unconfirmed):
                self._has_shown, self._has_ended = True, True
                self._renderer.end(unconfirmed)
            case messages.Note(line):
                self._notes.print(line, style="dim", markup=False)
            case messages.AnswerFailed():
                raise message.error()
            case messages.AnswerFinished(fields):
                from client.terminal.outcome import Outcome, show_outcome

                show_outcome(Outcome.from_dict(fields), self._notes, as_json=self._as_json)
                return True
        return False
