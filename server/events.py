"""What happens to sessions, as data for logs and metrics: never a text, a token or the whole of a session's id.

Times are durations in seconds. `client` is the name of the token that a stream bears, empty where none is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass

from common.protocol.messages import FailureCode, FinishReason
from server.sessions.refusal import Reason


@dataclass(frozen=True, slots=True)
class Opened:
    """A session has a stream; `resumed` where it had one before."""

    session: str
    client: str
    tokens: int  # of the sequence that came with it
    resumed: bool


@dataclass(frozen=True, slots=True)
class Committed:
    """A pass made tokens final. `waited` is the time since the commit before, or for the first since the question."""

    tokens: int
    waited: float
    is_first: bool


@dataclass(frozen=True, slots=True)
class Finished:
    session: str
    client: str
    reason: FinishReason
    prompt_tokens: int  # that came with the question
    tokens: int
    passes: int
    seconds: float
    first_token_seconds: float | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was made for this stream."""

    session: str
    client: str
    reason: Reason
    retry_after: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A stream ended with a fault of its client, or of ours; `tokens` of its answer were made by then."""

    session: str
    client: str
    code: FailureCode
    tokens: int


@dataclass(frozen=True, slots=True)
class Left:
    """A stream is gone. Its session is kept for `kept_seconds`, 0 where it is not."""

    session: str
    client: str
    kept_seconds: float
    is_running: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A session that was kept is no more."""

    session: str
    client: str


@dataclass(frozen=True, slots=True)
class Draining:
    sessions: int


@dataclass(frozen=True, slots=True)
class CallsRefused:
    """So many calls of a kind since this was told last, and why. Of sessions that are turned away `Refused` tells."""

    kind: str
    reason: str
    calls: int


Event = Opened | Committed | Finished | Refused | Failed | Left | Forgotten | Draining | CallsRefused
Tell = Callable[[Event], None]

_SHOWN = 8


def shown(session: str) -> str:
    """So much of a session's id as tells it from others; the whole is its key."""
    return session[:_SHOWN]


def unheard(_: Event) -> None:
    """For whom nobody keeps books."""
