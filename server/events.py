"""What happens to sessions, as data for logs and metrics: never a text, a token or the whole of a session's id.

Times are durations in seconds. `client` is the name of the token that a stream bears, empty where none is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass

from common.protocol.messages import FailureCode, FinishReason
from server.refusal import RefusalReason


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A session has a stream. `resumed`: it had one before."""

    session: str
    client: str
    tokens: int  # of the sequence that came with it
    resumed: bool


@dataclass(frozen=True, slots=True)
class TokensCommitted:
    """A pass committed tokens. `waited` is the time since the last commit, without that in which the answer gave way to
    others because its client held it up, for the first one since the request; None for the first one of an answer that
    another session began."""

    tokens: int
    waited: float | None
    is_first: bool


@dataclass(frozen=True, slots=True)
class AnswerFinished:
    session: str
    client: str
    reason: FinishReason
    prompt_tokens: int  # that came with the request
    tokens: int
    passes: int
    seconds: float
    first_token_seconds: float | None


@dataclass(frozen=True, slots=True)
class SessionRefused:
    """A request was refused; its client may try again."""

    session: str
    client: str
    reason: RefusalReason
    retry_after: float


@dataclass(frozen=True, slots=True)
class StreamFailed:
    """A stream ended with a fault of its client, or of the server, after `tokens` of its answer."""

    session: str
    client: str
    code: FailureCode
    tokens: int


@dataclass(frozen=True, slots=True)
class StreamDisconnected:
    """A stream is gone. Its session stays on lease for `kept_seconds`, 0 where it does not."""

    session: str
    client: str
    kept_seconds: float
    is_running: bool


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """The lease of a session ended, and the session with it."""

    session: str
    client: str


@dataclass(frozen=True, slots=True)
class DrainingBegan:
    sessions: int


@dataclass(frozen=True, slots=True)
class CallsRefused:
    """How many calls of a kind were refused since the last such event, and why. For sessions see `SessionRefused`."""

    kind: str
    reason: str
    calls: int


Event = (
    SessionOpened
    | TokensCommitted
    | AnswerFinished
    | SessionRefused
    | StreamFailed
    | StreamDisconnected
    | LeaseEnded
    | DrainingBegan
    | CallsRefused
)
EventListener = Callable[[Event], None]

_SHOWN = 8


def short_id(session: str) -> str:
    """The start of a session's id, enough to tell sessions apart. The whole id is a secret: who knows it can resume."""
    return session[:_SHOWN]


def ignore_event(_: Event) -> None:
    """The listener where nobody listens."""
