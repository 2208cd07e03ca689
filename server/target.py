"""The target: loads it, and runs one pass for the tokens that it chooses.

Blocking torch code, called from one worker thread. It may not know sessions, trees or who asks.
"""

import logging
from collections.abc import Sequence

import torch

from common.models.checkpoint import load_causal_lm
from common.models.errors import CheckpointError
from common.models.packed import PackedModel
from common.models.segment import Segment

_log = logging.getLogger(__name__)

Choices = list[int]


class Target:
    def __init__(self, model: PackedModel):
        self.model = model

    def choose(self, segments: Sequence[Segment]) -> list[Choices | None]:
        """One pass: for each segment the argmax at each wanted row, or None where there is none.

        A pass that fails as a whole is run again for each segment alone, so that only the faulty one pays.
        """
        try:
            return self._choose(segments)
        # Whatever torch raises, it concerns this pass and not the server.
        except Exception as error:
            _log.error("a pass of %d sessions failed: %s: %s", len(segments), type(error).__name__, error)
            if len(segments) == 1:
                return [None]
            return [self.choose([segment])[0] for segment in segments]

    @torch.inference_mode()
    def _choose(self, segments: Sequence[Segment]) -> list[Choices | None]:
        # In float32, as transformers' own generation loop chooses: ties must fall the same way.
        logits = self.model.forward(segments).logits.float()
        tokens = logits.argmax(-1)
        usable = logits.amax(-1).isfinite()
        rows = torch.stack([tokens, usable.to(tokens.dtype)]).tolist()
        choices: list[Choices | None] = []
        start = 0
        for segment in segments:
            end = start + len(segment.wanted)
            choices.append(rows[0][start:end] if all(rows[1][start:end]) else None)
            start = end
        return choices


def load_target(
    path: str, *, device: str, dtype: str, capacity: int, threads: int, keep_hidden: bool = False
) -> Target:
    """Loads the weights, reserves K/V for `capacity` tokens, and runs one pass, so that no client waits for a first.

    `keep_hidden` keeps last hidden states beside the K/V.

    Raises CheckpointError where something is amiss, or does not fit on the device.
    """
    if threads:
        torch.set_num_threads(threads)
    model = load_causal_lm(path, device, dtype)
    try:
        packed = PackedModel(model, capacity, keep_hidden)
        packed.forward([Segment(tokens=[0], slots=[0], parents=[-1], wanted=[0])])
    except (RuntimeError, MemoryError) as error:
        raise CheckpointError(
            f"the target does not run on {device} in {dtype} with room for {capacity} tokens; "
            "choose another --device or --dtype, or lower --cache-tokens"
        ) from error
    return Target(packed)
