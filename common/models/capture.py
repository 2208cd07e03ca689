"""Captures what a forward launches, to launch it again as one graph: CUDA graphs.

It may not know passes, buckets or layouts.
"""

from collections.abc import Callable
from threading import Lock
from typing import Protocol

import torch

Forward = Callable[[], torch.Tensor]


class Capture(Protocol):
    def __call__(self, forward: Forward) -> Forward:
        """Something that does on the device what `forward` does there, and returns the tensor that `forward` returned.
        Neither Python nor numbers of the host are looked at again: all that may change lies in tensors whose memory
        stays where it is. What was returned by one replay is overwritten by the next, of any graph.

        Raises `RuntimeError` where it cannot be captured."""
        ...


_capture_lock = Lock()
"""One capture at a time, whatever the target: each begins with a wait for the whole device, which CUDA forbids while
any stream of it captures, and which would break that capture too."""


class CudaCapture:
    """One graph for each forward; all share memory for what they compute, so that one at a time may run."""

    def __init__(self, device: torch.device):
        self._device = device
        self._memory = torch.cuda.graph_pool_handle()
        # torch's own capture stream is one for the process, of the device that captured first.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # The memory goes with its last graph, and torch captures nothing into it from then on.
        self._holding = self(lambda: torch.zeros(1, device=device))

    def __call__(self, forward: Forward) -> Forward:
        graph = torch.cuda.CUDAGraph()
        # Other threads use the device meanwhile: the server's drafters. Where a capture cannot be ended, torch does not
        # go back to the stream that was current before: the outer block does.
        with (
            _capture_lock,
            torch.cuda.device(self._device),
            torch.cuda.stream(torch.cuda.current_stream(self._device)),
            torch.cuda.graph(graph, pool=self._memory, stream=self._stream, capture_error_mode="thread_local"),
        ):
            result = forward()

        def replay() -> torch.Tensor:
            graph.replay()
            return result

        return replay
