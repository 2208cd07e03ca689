"""Reads draft state out of frames, for a network that knows its shape. It may not know networks or sessions."""

import torch

from common.codec import decode
from common.protocol.errors import PeerError
from common.protocol.messages import State


def state_values(state: State, like: torch.Tensor, *position: int) -> torch.Tensor:
    """The state of a frame's positions, `[count, *position]`, in the dtype and on the device of `like`.

    Raises PeerError where the frame is corrupt or its positions have another shape.
    """
    if state.shape[1:] != position:
        raise PeerError(
            f"the server sends '{state.kind}' of the shape {list(state.shape[1:])} for each position, and the draft "
            f"model reads {list(position)}"
        )
    return decode(state.payload, state.dtype, state.shape)[: state.count].to(like)
