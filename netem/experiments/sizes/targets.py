"""The targets whose sizes are reported, and what of their configurations is no size. Data only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from common.protocol.errors import MisuseError
from netem.experiments.one_device.dimensions import LLAMA_1B, LLAMA_8B, QWEN_600M, TargetDimensions
from netem.experiments.sizes.chat_tokenizer import LLAMA3, QWEN3, ChatForm

_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@dataclass(frozen=True, slots=True)
class SizedTarget:
    """options: of the configuration, beside sizes. ends: tokens that end an answer."""

    dimensions: TargetDimensions
    chat: ChatForm
    options: Mapping[str, Any]
    ends: tuple[str, ...]


_LLAMA_ENDS = ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")
_LLAMA = {"max_position_embeddings": 131_072, "rms_norm_eps": 1e-5}
_QWEN = {
    "max_position_embeddings": 40_960,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
}

LLAMA_1B_TARGET = SizedTarget(
    LLAMA_1B, LLAMA3, _LLAMA | {"rope_parameters": _LLAMA3_ROPE | {"factor": 32.0}}, _LLAMA_ENDS
)
QWEN_600M_TARGET = SizedTarget(QWEN_600M, QWEN3, _QWEN, ("<|im_end|>", "<|endoftext|>"))
LLAMA_8B_TARGET = SizedTarget(
    LLAMA_8B, LLAMA3, _LLAMA | {"rope_parameters": _LLAMA3_ROPE | {"factor": 8.0}}, _LLAMA_ENDS
)
TARGETS = (QWEN_600M_TARGET, LLAMA_1B_TARGET, LLAMA_8B_TARGET)


def chosen_targets(names: Sequence[str], quick: bool) -> dict[str, SizedTarget]:
    """By name, all where none is named; with `quick` each as `shrunk`. Raises MisuseError for an unknown name."""
    known = {each.dimensions.name: each for each in TARGETS}
    for name in names:
        if name not in known:
            raise MisuseError(f"this experiment has no target '{name}'; choose from {', '.join(known)}")
    return {name: shrunk(each) if quick else each for name, each in known.items() if not names or name in names}


def shrunk(target: SizedTarget) -> SizedTarget:
    """The same family with so few weights that a process which loads them is as large as one without: what is
    subtracted from memory."""
    sizes = target.dimensions
    small = replace(
        sizes, name="shrunk", hidden=64, layers=3, heads=4, kv_heads=2, head_dim=16, intermediate=128, vocabulary=2048
    )
    return replace(target, dimensions=small)
