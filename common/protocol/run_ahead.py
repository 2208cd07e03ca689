"""How far an answer may run ahead of what its client has acknowledged. Pure; seconds. Knows no session and no tree."""

import math

from common.protocol.response_time import ResponseTime

_FARTHEST = 1.0
"""Seconds until an acknowledgement from a client that is merely far away: what is believed of one that has not answered
yet, and the most of what a client can make the server believe."""

_ROUND_TRIPS_AHEAD = 1.5
"""Of tokens at the speed of the answer, where that is more than the operator's run-ahead."""


def most_ahead(run_ahead: int, speed: float, response_time: ResponseTime) -> float:
    """Tokens: enough not to wait for a client that is merely far away. `speed` is infinite until it is known."""
    if speed == math.inf:
        return run_ahead
    away = min(_FARTHEST, response_time.allowance(unknown=_FARTHEST))
    return max(run_ahead, _ROUND_TRIPS_AHEAD * away * speed)
