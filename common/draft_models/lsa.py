"""Mixers of layers: one vector of draft state from a token's keys and values in all target layers.

What may live here: the forms of it, and the encoder of a learnt codec behind one. It may not know the client's half,
pools, slots or the wire.
"""

from collections.abc import Callable, Mapping
from typing import Self

import torch
from torch import nn
from torch.nn import functional

from common.draft_models.layers import DecoderLayer, LayerShape, RmsNorm, full_attention

# Shape letters: N tokens, L target layers, W state width (a layer's keys, rotated to their positions, and values).
# ruff: noqa: N803

_LEAST_DEVIATION = 1e-3


class LayerSelfAttention(nn.Module):
    """A decoder layer over a token's layers, the layer's index as position, then their mean: as published in
    Mixture of Attentions (Zimmer et al. 2025, arXiv 2410.03804)."""

    def __init__(self, layers: int, shape: LayerShape):
        super().__init__()
        self.layer = DecoderLayer(shape)

    def forward(self, layers_NLW: torch.Tensor) -> torch.Tensor:
        """`[N, W]` from `[N, L, W]`."""
        positions = torch.arange(layers_NLW.shape[1], device=layers_NLW.device).expand(layers_NLW.shape[:2])
        mixed: torch.Tensor = self.layer(layers_NLW, positions, full_attention)
        return mixed.mean(dim=1)


class LayerMixture(nn.Module):
    """A learnt weight for every channel of every layer, their mean, and one feed-forward layer with a residual. It
    takes a fraction of self-attention's time and loses little, as the best mixture hardly depends on the token.

    Channels are standardised in float32 whatever dtype the module is put in: of a key that lies many deviations from
    zero, a mean in bfloat16 leaves little but its rounding. Drafts of earlier versions have mean and deviation in
    bfloat16 on the disk; see `keep_stored_dtypes`."""

    mean_LW: torch.Tensor  # noqa: N815
    deviation_LW: torch.Tensor  # noqa: N815

    def __init__(self, layers: int, shape: LayerShape):
        super().__init__()
        width = shape.hidden
        self.register_buffer("mean_LW", torch.zeros(layers, width))
        self.register_buffer("deviation_LW", torch.ones(layers, width))
        self.gate = nn.Parameter(torch.ones(layers, width))
        self.norm = RmsNorm(width, shape.epsilon)
        self.up_proj = nn.Linear(width, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, width, bias=False)

    @property
    def is_calibrated(self) -> bool:
        return bool(self.mean_LW.any())

    @torch.no_grad()
    def calibrate(self, layers_NLW: torch.Tensor) -> None:
        """Sets the mean and deviation by which each channel is standardised: some channels of keys are many times
        larger than others."""
        self.mean_LW.copy_(layers_NLW.float().mean(dim=0))
        self.deviation_LW.copy_(layers_NLW.float().std(dim=0).clamp(min=_LEAST_DEVIATION))

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """What `to` and its like are made of: mean and deviation change their device alone."""
        before = self.mean_LW, self.deviation_LW
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.mean_LW, self.deviation_LW = (each.to(self.gate.device) for each in before)
        return self

    def forward(self, layers_NLW: torch.Tensor) -> torch.Tensor:
        """`[N, W]` from `[N, L, W]`."""
        standard = ((layers_NLW - self.mean_LW) / self.deviation_LW).to(self.gate.dtype)
        mixed = (standard * self.gate).mean(dim=1)
        out: torch.Tensor = mixed + self.down_proj(functional.silu(self.up_proj(self.norm(mixed))))
        return out


class LayerMean(nn.Module):
    """The plain mean over layers, without weights: the baseline that shows what a learnt mixer adds."""

    def __init__(self, layers: int, shape: LayerShape):
        super().__init__()

    def forward(self, layers_NLW: torch.Tensor) -> torch.Tensor:
        """`[N, W]` from `[N, L, W]`."""
        return layers_NLW.mean(dim=1)


class CodedMixer(nn.Module):
    """A mixer, and behind it the encoder of a learnt codec: a linear bottleneck. What shapes states before it is the
    mixer's own feed-forward part, which trains with it."""

    def __init__(self, mixer: LayerSelfAttention | LayerMixture | LayerMean, state_width: int, width: int):
        super().__init__()
        self.mixer = mixer
        self.encode = nn.Linear(state_width, width)

    def forward(self, layers_NLW: torch.Tensor) -> torch.Tensor:
        """`[N, width]` from `[N, L, W]`."""
        encoded: torch.Tensor = self.encode(self.mixer(layers_NLW))
        return encoded


def keep_stored_dtypes(mixer: nn.Module, stored: Mapping[str, torch.Tensor]) -> None:
    """Puts what a mixer standardises by in the dtypes in which it is `stored`, so that a draft of an earlier version
    goes on computing what it was measured with."""
    for name, buffer in mixer.named_buffers():
        if name in stored:
            buffer.data = buffer.to(stored[name].dtype)


StateMixer = LayerSelfAttention | LayerMixture | LayerMean | CodedMixer

MIXERS: dict[str, type[LayerSelfAttention] | type[LayerMixture] | type[LayerMean]] = {
    "attention": LayerSelfAttention,
    "mixture": LayerMixture,
    "mean": LayerMean,
}
"""By the name in a draft's configuration."""
