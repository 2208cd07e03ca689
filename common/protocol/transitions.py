"""The states of both session machines and every legal transition, as data. All others are illegal."""

from enum import Enum
from typing import NoReturn

from common.protocol.errors import MisuseError, PeerError
from common.protocol.messages import (
    Ack,
    Cancel,
    Commit,
    Extend,
    Failed,
    Finished,
    Grow,
    Open,
    Opened,
    State,
    StateAck,
)


class ServerState(Enum):
    GENERATING = "generating"
    FINISHED = "finished"


class ClientState(Enum):
    NEW = "new"
    OPENING = "opening"
    GENERATING = "generating"
    CANCELLING = "cancelling"
    FINISHED = "finished"
    LOST = "lost"  # the stream broke in mid-answer
    PARKED = "parked"  # the stream broke between answers
    FAILED = "failed"


class Lost:
    """The event of a broken stream; it is observed, not sent."""


# The events that change the server's state; it sends Finished itself. All other frames of a client are legal in every
# state, because a client cannot know at once that an answer has ended.
_SERVER: dict[ServerState, dict[type, ServerState]] = {
    ServerState.GENERATING: {
        Open: ServerState.GENERATING,
        Finished: ServerState.FINISHED,
    },
    ServerState.FINISHED: {
        Open: ServerState.GENERATING,
        Extend: ServerState.GENERATING,
    },
}

# What the client sends and receives. What it could not send while the stream was lost, the next Open carries.
_CLIENT: dict[ClientState, dict[type, ClientState]] = {
    ClientState.NEW: {Open: ClientState.OPENING},
    ClientState.OPENING: {
        Grow: ClientState.OPENING,
        Ack: ClientState.OPENING,
        Cancel: ClientState.CANCELLING,
        Opened: ClientState.GENERATING,
        Failed: ClientState.FAILED,
        Lost: ClientState.LOST,
    },
    ClientState.GENERATING: {
        Grow: ClientState.GENERATING,
        Ack: ClientState.GENERATING,
        Cancel: ClientState.CANCELLING,
        Commit: ClientState.GENERATING,
        State: ClientState.GENERATING,
        StateAck: ClientState.GENERATING,
        Finished: ClientState.FINISHED,
        Failed: ClientState.FAILED,
        Lost: ClientState.LOST,
    },
    ClientState.CANCELLING: {
        Opened: ClientState.CANCELLING,
        Commit: ClientState.CANCELLING,
        State: ClientState.CANCELLING,
        StateAck: ClientState.CANCELLING,
        Finished: ClientState.FINISHED,
        Failed: ClientState.FAILED,
        Lost: ClientState.LOST,
    },
    ClientState.FINISHED: {
        Extend: ClientState.GENERATING,
        Commit: ClientState.FINISHED,
        State: ClientState.FINISHED,
        StateAck: ClientState.FINISHED,
        Finished: ClientState.FINISHED,
        Failed: ClientState.FAILED,
        Lost: ClientState.PARKED,
    },
    ClientState.LOST: {
        Open: ClientState.OPENING,
        Extend: ClientState.LOST,
        Grow: ClientState.LOST,
        Cancel: ClientState.LOST,
        Lost: ClientState.LOST,
    },
    ClientState.PARKED: {Open: ClientState.OPENING, Lost: ClientState.PARKED},
    ClientState.FAILED: {Lost: ClientState.FAILED},
}

_FROM_SERVER = (Opened, Commit, State, Finished, Failed)


def server_after(state: ServerState, event: type) -> ServerState:
    """The server's next state. Raises PeerError where the client may not do that now."""
    after = _SERVER[state].get(event)
    if after is None:
        raise PeerError(f"{event.__name__} is not allowed while the session is {state.value}")
    return after


def client_after(state: ClientState, event: type) -> ClientState:
    """The client's next state. Raises PeerError for the server's fault and MisuseError for ours."""
    after = _CLIENT[state].get(event)
    if after is None:
        _refuse(state, event)
    return after


def _refuse(state: ClientState, event: type) -> NoReturn:
    sentence = f"{event.__name__} is not allowed while the session is {state.value}"
    raise PeerError(sentence) if event in _FROM_SERVER else MisuseError(sentence)
