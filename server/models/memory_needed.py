"""What a target's weights and K/V take of a device's memory, from its files alone, so that weights that cannot fit are
refused before they are loaded.

It may not load weights, nor know options or who asks.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedConfig

from common.counted import format_bytes
from common.memory import free_memory_bytes
from common.models.checkpoint import load_config
from common.models.errors import CheckpointError
from common.models.families import key_value_numbers
from common.models.placement import DTYPES
from common.models.quantised import count_numbers, is_expanded, method_of
from common.models.source import BITS, CONFIG, check_quantise, read_json, weight_files
from common.weight_only.modes import AS_IS
from common.weight_only.needs import memory_bytes, read_file_header
from server.models.state_needs import NO_STATE, StateNeeds

_log = logging.getLogger(__name__)

_SCALE_BYTES = {"int8": 0.0, "int4": 4 / 64}
"""Of a weight's scale, by `quantise`: a float32 for 64 weights in int4, and one for a whole row in int8."""

REMEDY = "choose --dtype bfloat16 or --quantize, lower --cache-tokens, or a larger device"


@dataclass(frozen=True, slots=True)
class MemoryNeeded:
    """Bytes of weights, of K/V and hidden states for `cache_tokens`, and what is free, 0 where that is unknown.

    K/V count at most: a family may have layers that keep none.
    """

    weights: float
    key_values: float
    hidden_states: float
    cache_tokens: int
    free: int

    @property
    def weights_fit(self) -> bool:
        return not self.free or self.weights < self.free

    @property
    def fits(self) -> bool:
        return not self.free or self.weights + self.key_values + self.hidden_states < self.free

    def __str__(self) -> str:
        kept = f"{format_bytes(self.key_values + self.hidden_states)} of K/V"
        kept += " and hidden states" if self.hidden_states else ""
        needed = f"about {format_bytes(self.weights)} of weights and {kept} for {self.cache_tokens:,} tokens"
        return f"{needed}, {format_bytes(self.free)} are free" if self.free else needed


def memory_needed(
    target: Path,
    device: str,
    dtype: str,
    cache_tokens: int,
    quantise: str,
    needs: StateNeeds = NO_STATE,
    ranks: int = 1,
) -> MemoryNeeded:
    """What the target in a directory takes of a device, with what drafts need of it. `ranks` divide weights and K/V
    among as many GPUs; on a CPU they share its memory. Raises CheckpointError where its configuration or weights are
    missing, and for an unknown format in `quantise`."""
    check_quantise(quantise)
    sizes = load_config(target)
    width = DTYPES[dtype].itemsize if dtype in DTYPES else 4
    weights = _weight_bytes(target, sizes, device, width, quantise)
    key_values = cache_tokens * key_value_numbers(sizes) * width
    parts = 1 if device == "cpu" else ranks
    hidden_states = cache_tokens * needs.hidden_states * sizes.hidden_size * width
    weights = weights / parts + needs.numbers * width
    return MemoryNeeded(weights, key_values / parts, hidden_states, cache_tokens, free_memory_bytes(device))


def sum_needed(needed: Sequence[MemoryNeeded]) -> MemoryNeeded:
    """Of targets that share a device; at least one."""
    return MemoryNeeded(
        sum(each.weights for each in needed),
        sum(each.key_values for each in needed),
        sum(each.hidden_states for each in needed),
        sum(each.cache_tokens for each in needed),
        needed[0].free,
    )


def check_memory(
    target: Path,
    device: str,
    dtype: str,
    cache_tokens: int,
    quantise: str,
    needs: StateNeeds = NO_STATE,
    ranks: int = 1,
) -> None:
    """Raises CheckpointError where the weights alone cannot fit, with the numbers; warns where K/V may not."""
    needed = memory_needed(target, device, dtype, cache_tokens, quantise, needs, ranks)
    if not needed.weights_fit:
        raise CheckpointError(f"the target does not fit into the memory of {device}: {needed}; {REMEDY}")
    if not needed.fits:
        _log.warning("the target may not fit into the memory of %s: %s; %s", device, needed, REMEDY)


def _weight_bytes(target: Path, sizes: PreTrainedConfig, device: str, width: int, quantise: str) -> float:
    """Of what loading makes of the files: it expands what is stored in few bits or packs what is not, by the numbers of
    the plain model, or else converts each floating-point number to the dtype of `width`."""
    files, config = weight_files(target), read_json(target / CONFIG)
    if quantise or is_expanded(config, device):
        try:
            in_layers, others = count_numbers(sizes)
        except Exception:  # of a configuration that is of no model: loading tells why
            return float(sum(file.stat().st_size for file in files))
        few = BITS[quantise] / 8 + _SCALE_BYTES[quantise] if quantise else width
        return in_layers * few + float(others * width)
    count = _bytes_beside_few_bits if method_of(config) else _loaded_bytes
    return float(sum(count(file, width) for file in files))


def _bytes_beside_few_bits(file: Path, width: int) -> int:
    """Where weights stay in few bits, each in its method's own form, and all other tensors are converted."""
    size = file.stat().st_size
    try:
        return size + sum(each.growth_bytes(width) for each in read_file_header(file).values())
    except ValueError:
        return size


def _loaded_bytes(file: Path, width: int) -> int:
    """With each floating-point number in `width` bytes. The size of a file that cannot be read: loading tells why."""
    try:
        return memory_bytes(read_file_header(file), AS_IS, width)
    except ValueError:
        return file.stat().st_size
