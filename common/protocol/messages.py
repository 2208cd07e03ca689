"""What travels on the stream, as frozen dataclasses, and nothing about how it is encoded.

Positions are absolute indices in the sequence. A `turn` numbers the answers of one session, from 0; a frame of
an earlier turn is stale and ignored, which is what makes late frames harmless when a turn rewrites history.
"""

from dataclasses import dataclass
from enum import StrEnum

from common.protocol.sampling import LIKELIEST, Sampling

PROTOCOL_VERSION = 3

LEAST_LOGP = -100.0
"""The least log-probability of a node: what is believed to be less likely is as good as impossible, and sums over the
longest path stay finite."""


class FinishReason(StrEnum):
    END = "stop"  # an end token or a stop string
    LENGTH = "length"  # max_new_tokens or the target's context
    CANCELLED = "cancelled"


class FailureCode(StrEnum):
    VERSION = "version"  # the peer speaks another protocol version
    MODEL = "model"  # the client's bundle was made for another target
    INVALID = "invalid"  # a request that this server cannot serve
    PROTOCOL = "protocol"  # a frame that breaks the protocol
    OVERLOADED = "overloaded"  # no room for the session now
    QUOTA = "quota"  # this client has used up its share for now
    DRAINING = "draining"  # the server is going away
    INTERNAL = "internal"  # the server's own fault


@dataclass(frozen=True, slots=True)
class Settings:
    """How one answer is made. `idle` names an idle policy, empty for the server's own choice.

    With `max_new_tokens` 0 no answer is wanted but the draft state of the whole prompt, its last token included: the
    turn is over once that has been acknowledged.
    """

    max_new_tokens: int
    rule: str = "greedy"
    stop: tuple[str, ...] = ()
    idle: str = ""
    sampling: Sampling = LIKELIEST

    @property
    def wants_state_alone(self) -> bool:
        return self.max_new_tokens == 0

    @property
    def wants_choice(self) -> bool:
        """Whether a pass has to compute the last token of the prompt, even where another has."""
        return not self.wants_state_alone


@dataclass(frozen=True, slots=True)
class Draw:
    """What the siblings of a group were drawn from, one after another without replacement: `tokens[i]` had a share of
    `weights[i]`. Whole numbers, so that both ends mean the same distribution to the last bit."""

    tokens: tuple[int, ...]
    weights: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GrownNode:
    """A proposed token. `parent` is a node id, or 0 for the committed token at `frontier - 1`.

    `logp` is the drafter's log-probability, from LEAST_LOGP to 0, that the target commits this node given its parent.
    Under a rule that judges groups, `draw` is what the node and its siblings were drawn from, None where nobody drew.
    """

    id: int
    parent: int
    token: int
    logp: float
    draw: Draw | None = None


@dataclass(frozen=True, slots=True)
class StateRequest:
    """The draft state that a session asks for: what the draft named `draft` needs to run the target's last `layers`
    layers itself, in numbers of `dtype`. K/V that are wanted `later` go when the link has nothing else to carry."""

    draft: str
    layers: int = 0
    dtype: str = "int8"
    later: bool = False


# Client to server.


@dataclass(frozen=True, slots=True)
class Open:
    """Begins or resumes a session: the whole sequence that the client knows, of which the first
    `prompt_length` tokens were given and the rest were committed earlier in this turn."""

    version: int
    fingerprint: str
    session: str
    turn: int
    tokens: tuple[int, ...]
    prompt_length: int
    settings: Settings
    state: StateRequest | None = None


@dataclass(frozen=True, slots=True)
class Extend:
    """Begins the next turn: keep the first `keep` positions and append `tokens`."""

    turn: int
    keep: int
    tokens: tuple[int, ...]
    settings: Settings


@dataclass(frozen=True, slots=True)
class Grow:
    """Adds nodes below a sequence of `frontier` committed tokens. Without nodes: decode on without me."""

    turn: int
    frontier: int
    nodes: tuple[GrownNode, ...]


@dataclass(frozen=True, slots=True)
class Ack:
    """The client knows `frontier` committed tokens."""

    turn: int
    frontier: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop this answer; the server replies with Finished."""

    turn: int


@dataclass(frozen=True, slots=True)
class StateAck:
    """The client has received `frames` State frames on this stream, those of earlier turns included."""

    frames: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Is anybody there? Of the stream, not of an answer."""

    number: int


# Server to client.


@dataclass(frozen=True, slots=True)
class Opened:
    """The session lives, and what follows belongs to this stream's Open."""

    session: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Tokens made final at positions `start`, `start + 1`, ... Idempotent. `seen` is the newest node id that had come
    by then, so that a client can measure the way there and back."""

    turn: int
    start: int
    tokens: tuple[int, ...]
    seen: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """Draft state of `count` committed positions from `start`: the first `count` rows of an encoded array of `shape`
    and `dtype`. On the wire the array has no other rows."""

    turn: int
    start: int
    count: int
    kind: str
    dtype: str
    shape: tuple[int, ...]
    payload: bytes


@dataclass(frozen=True, slots=True)
class Finished:
    """The turn is over with `frontier` committed tokens. Repeatable."""

    turn: int
    frontier: int
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class Failed:
    """The session is over. `message` is one sentence for a person; `retry_after` are seconds after which the same may
    succeed, 0 where there is no telling."""

    code: FailureCode
    message: str
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Pong:
    """What is sent at once for the Ping of that number."""

    number: int


FromClient = Open | Extend | Grow | Ack | Cancel | StateAck | Ping
FromServer = Opened | Commit | State | Finished | Failed | Pong
