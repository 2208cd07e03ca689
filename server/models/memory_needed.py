"""What a target's weights and K/V take of a device's memory, from its files alone, so that what cannot fit is refused
before it is loaded.

It may not load weights, nor know options or who asks.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from common.models.checkpoint import load_config
from common.models.errors import CheckpointError
from common.models.families import key_width
from common.models.placement import DTYPES
from common.models.quantised import BITS, method_of
from common.models.source import CONFIG, read_json, weight_files
from common.programs.machine import format_bytes, free_memory_bytes
from server.models.state_needs import NO_STATE, StateNeeds

REMEDY = "choose --dtype bfloat16 or --quantize, lower --cache-tokens, or a larger device"


@dataclass(frozen=True, slots=True)
class MemoryNeeded:
    """Bytes of weights, of K/V and hidden states for `cache_tokens`, and what is free, 0 where that is unknown."""

    weights: float
    key_values: float
    hidden_states: float
    cache_tokens: int
    free: int

    @property
    def fits(self) -> bool:
        return not self.free or self.weights + self.key_values + self.hidden_states < self.free

    def __str__(self) -> str:
        kept = f"{format_bytes(self.key_values + self.hidden_states)} of K/V"
        kept += " and hidden states" if self.hidden_states else ""
        needed = f"about {format_bytes(self.weights)} of weights and {kept} for {self.cache_tokens:,} tokens"
        return f"{needed}, {format_bytes(self.free)} are free" if self.free else needed


def memory_needed(
    target: Path, device: str, dtype: str, cache_tokens: int, quantise: str, needs: StateNeeds = NO_STATE
) -> MemoryNeeded:
    """What the target in a directory takes, with what drafts need of it. Raises CheckpointError where its configuration
    or weights are missing."""
    sizes, config = load_config(target), read_json(target / CONFIG)
    width = DTYPES[dtype].itemsize if dtype in DTYPES else 4
    stored_width = DTYPES.get(str(config.get("dtype") or config.get("torch_dtype")), torch.bfloat16).itemsize
    stored = sum(file.stat().st_size for file in weight_files(target))
    scale = 1.0 if method_of(config) else width / stored_width
    weights = stored * (BITS[quantise] / 8 / width if quantise else 1.0) * scale
    key_values = cache_tokens * sizes.num_hidden_layers * 2 * key_width(sizes) * width
    hidden_states = cache_tokens * needs.hidden_states * sizes.hidden_size * width
    weights += needs.numbers * width
    return MemoryNeeded(weights, key_values, hidden_states, cache_tokens, free_memory_bytes(device))


def check_memory(
    target: Path, device: str, dtype: str, cache_tokens: int, quantise: str, needs: StateNeeds = NO_STATE
) -> None:
    """Raises CheckpointError where the target cannot fit, with the numbers."""
    needed = memory_needed(target, device, dtype, cache_tokens, quantise, needs)
    if not needed.fits:
        raise CheckpointError(f"the target does not fit into the memory of {device}: {needed}; {REMEDY}")
