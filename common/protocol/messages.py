"""The messages of a stream, as frozen dataclasses; how they are encoded is not known here.

Positions are absolute indices in the sequence. A `turn` numbers the answers of one session, from 0; a frame of
an earlier turn is ignored, so that late frames are harmless when a turn rewrites history.
"""

from dataclasses import dataclass
from enum import StrEnum

from common.protocol.logprobs import TokenLogprobs
from common.protocol.sampling import LIKELIEST, Sampling

PROTOCOL_VERSION = 4

LEAST_LOGP = -100.0
"""The least log-probability of a node. Less likely tokens are practically impossible, and with this bound sums over the
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
    MEMORY = "memory"  # the device has no memory for a pass of this session, even alone
    QUOTA = "quota"  # this client has used up its share for now
    DRAINING = "draining"  # the server takes no new sessions and ends
    INTERNAL = "internal"  # the server's own fault


@dataclass(frozen=True, slots=True)
class Constraint:
    """What an answer must match from its first token to its end: `text` is a JSON schema, a regular expression or a
    grammar in Lark's notation, as `grammar` says."""

    grammar: str
    text: str


MOST_NEW_TOKENS = (1 << 31) - 1
"""The longest answer that can be asked for, in tokens."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one answer. `idle` names an idle policy, empty for the server's default. `top_logprobs` asks for
    the log-probability of each committed token, and of so many of the likeliest beside it; None for neither.

    With `max_new_tokens` 0 the turn asks only for the draft state of the whole prompt, including its last token, and
    is over once that has been acknowledged.
    """

    max_new_tokens: int
    rule: str = "greedy"
    stop: tuple[str, ...] = ()
    idle: str = ""
    sampling: Sampling = LIKELIEST
    constraint: Constraint | None = None
    top_logprobs: int | None = None

    @property
    def wants_state_alone(self) -> bool:
        return self.max_new_tokens == 0

    @property
    def wants_choice(self) -> bool:
        """Whether a pass has to compute the last token of the prompt, even where another has."""
        return not self.wants_state_alone


@dataclass(frozen=True, slots=True)
class Draw:
    """The distribution from which siblings of a group were sampled, one after another without replacement, and without
    the tokens of those before them in the group: `tokens[i]` has the weight `weights[i]`. Weights are integers, so that
    both ends compute the same distribution to the last bit."""

    tokens: tuple[int, ...]
    weights: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GrownNode:
    """A proposed token. `parent` is a node id, or 0 for the committed token at `frontier - 1`.

    `logp` is the drafter's log-probability, from LEAST_LOGP to 0, that the target commits this node given its parent.
    Under a rule with sampled groups, `draw` is the distribution that the node was drawn from, None for a point mass.
    """

    id: int
    parent: int
    token: int
    logp: float
    draw: Draw | None = None


@dataclass(frozen=True, slots=True)
class StateRequest:
    """The draft state that a session asks for: what the draft named `draft` needs if it runs the target's last
    `layers` layers itself, encoded in `dtype`. K/V that are wanted `later` are sent when the link is otherwise idle."""

    draft: str
    layers: int = 0
    dtype: str = "int8"
    later: bool = False


# Client to server.


@dataclass(frozen=True, slots=True)
class Open:
    """Begins or resumes a session with the whole sequence that the client knows: the first `prompt_length` tokens are
    the prompt, the others were committed earlier in this turn."""

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
    """Begins the next turn: the first `keep` positions stay, and `tokens` are appended."""

    turn: int
    keep: int
    tokens: tuple[int, ...]
    settings: Settings


@dataclass(frozen=True, slots=True)
class Grow:
    """Adds nodes below a sequence of `frontier` committed tokens. Without nodes it asks the server to go on decoding
    without drafts."""

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
    """Stops this answer; the server replies with Finished."""

    turn: int


@dataclass(frozen=True, slots=True)
class StateAck:
    """The client has received `frames` State frames on this stream, those of earlier turns included."""

    frames: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Asks for a Pong, to test the stream. It belongs to no turn."""

    number: int


# Server to client.


@dataclass(frozen=True, slots=True)
class Opened:
    """The session is open, and the following messages belong to this stream's Open."""

    session: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Tokens committed at positions `start`, `start + 1`, ... Idempotent. `seen` is the newest node id that the server
    had received, so that a client can measure the round trip. `logprobs` has one entry for each token where the answer
    asked for them, else none."""

    turn: int
    start: int
    tokens: tuple[int, ...]
    seen: int = 0
    logprobs: tuple[TokenLogprobs, ...] = ()


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
    """The turn is over with `frontier` committed tokens. Idempotent."""

    turn: int
    frontier: int
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class Failed:
    """The session is over. `message` is one sentence for people; `retry_after` are seconds after which the same request
    may succeed, 0 where that is unknown."""

    code: FailureCode
    message: str
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Pong:
    """The immediate reply to the Ping of that number; without a Ping 0, which says that the stream stands."""

    number: int


FromClient = Open | Extend | Grow | Ack | Cancel | StateAck | Ping
FromServer = Opened | Commit | State | Finished | Failed | Pong
