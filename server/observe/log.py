"""The server's log on stderr: plain lines for people, or one JSON object a line for machines.

About sessions it writes what `events` carry, so that no text and no token can get here.
"""

import json
import logging
import math
import sys
from dataclasses import asdict
from datetime import UTC, datetime

from common.counted import counted
from common.protocol.plain import LONGEST_LINE, plain
from server.events import (
    AnswerFinished,
    CallsRefused,
    DrainingBegan,
    Event,
    LeaseEnded,
    SessionOpened,
    SessionRefused,
    StreamDisconnected,
    StreamFailed,
    TokensCommitted,
)

_EVENTS: dict[type, str] = {
    SessionOpened: "session opened",
    AnswerFinished: "answer finished",
    SessionRefused: "session refused",
    StreamFailed: "session failed",
    StreamDisconnected: "stream left",
    LeaseEnded: "lease ended",
    DrainingBegan: "draining",
    CallsRefused: "calls refused",
}
_FAULT = "fault"

_log = logging.getLogger(__name__)


def configure_logging(form: str) -> None:
    """Sets the log up. `json` writes an event for every session, `text` only what people should read."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else OneLineFormatter("outriderd: %(message)s"))
    if form == "text":
        handler.addFilter(lambda record: bool(record.getMessage()))
    logging.getLogger().addHandler(handler)
    _log.setLevel(logging.INFO)


def handle_event(event: Event, **about: str) -> None:
    """`about` is logged with it."""
    # Commits are too many for a log; metrics count them.
    if not isinstance(event, TokensCommitted):
        note(_EVENTS[type(event)], _sentence(event), **about, **asdict(event))


def _sentence(event: Event) -> str:
    """The event in words, empty where people need not read it."""
    if isinstance(event, CallsRefused):
        return f"{counted(event.calls, f'{event.kind} call')} refused: {event.reason}"
    return ""


def note(event: str, sentence: str = "", **details: object) -> None:
    """Logs something that is no fault: in text the sentence, if there is one; in JSON everything."""
    _log.info(sentence, extra={"event": event, "details": details})


class OneLineFormatter(logging.Formatter):
    """One line for each record, whatever text of a client it quotes."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return plain(super().formatMessage(record), LONGEST_LINE)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", _FAULT),
        }
        if sentence := record.getMessage():
            fields["message"] = sentence
        details = {name: _rounded(value) for name, value in getattr(record, "details", {}).items()}
        return json.dumps(fields | details)


def _rounded(value: object) -> object:
    """As JSON has it, which knows no infinity."""
    if not isinstance(value, float):
        return value
    return round(value, 3) if math.isfinite(value) else None
