"""Records what came out of a link as a trace: an opportunity for each 1500 bytes, when they were complete.

The trace shows what was used: while the link had nothing to carry there is no opportunity. It contains the delay, so
replay it on a link without one. Pure: time is an argument, in seconds since the link began.
"""

import math

from netem.links.trace import OPPORTUNITY_BYTES, Trace

_MS_PER_S = 1000.0


class Recorder:
    """Records one direction."""

    def __init__(self) -> None:
        self._moments_ms: list[int] = []
        self._incomplete_bytes = 0

    def observe(self, size_bytes: int, at_s: float) -> None:
        """at_s may not fall from one call to the next."""
        complete, self._incomplete_bytes = divmod(self._incomplete_bytes + size_bytes, OPPORTUNITY_BYTES)
        self._moments_ms += [math.ceil(at_s * _MS_PER_S)] * complete

    def trace(self, ended_s: float) -> Trace:
        """The trace so far. It ends with one opportunity at ended_s, for the incomplete rest and as the period."""
        end_ms = max(1, math.ceil(ended_s * _MS_PER_S), *self._moments_ms[-1:])
        return Trace((*self._moments_ms, end_ms))
