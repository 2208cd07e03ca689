"""Saves a trained causal LM as a Hugging Face checkpoint with its tokenizer. May not know any draft kind."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel

from training.draft_models.features import FrozenTarget


def save_target(out: Path, model: PreTrainedModel, target: FrozenTarget, dtype: torch.dtype | None = None) -> None:
    """Saves `model` with the tokenizer and the end tokens of `target`. dtype: None for that of the target."""
    saved: Any = deepcopy(model)
    saved.to(dtype or target.model.dtype)
    ends = sorted(target.end_tokens)
    generation: Any = GenerationConfig
    saved.generation_config = generation(
        bos_token_id=target.tokenizer.bos_token_id,
        eos_token_id=ends or None,
        pad_token_id=target.tokenizer.pad_token_id,
    )
    saved.save_pretrained(out)
    target.tokenizer.save_pretrained(out)
    for path in out.glob("*.safetensors"):
        path.chmod(0o644)  # safetensors makes them readable by their owner alone
