"""Writing a causal LM that training made as an ordinary Hugging Face checkpoint, tokenizer included.

May not know any kind of draft.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel

from training.draft_models.features import Target


def save_target(out: Path, model: PreTrainedModel, target: Target, dtype: torch.dtype | None = None) -> None:
    """Saves `model` with the tokenizer and the end tokens of `target`, in the dtype of the target unless told."""
    saved: Any = deepcopy(model)
    saved.to(dtype or target.model.dtype)
    # A PackedModel or a training attention may have left its name behind.
    saved.set_attn_implementation("sdpa")
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
        path.chmod(0o644)  # the writer leaves them readable by their owner alone
