"""Model folders in the form other tools load: safetensors, configurations, tokenizer.

What may live here: writing and reading one model folder. It may not know training, evaluation or the card's text.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

from training.demo.tokenizer import load_tokenizer

# One small file is written and read at once; bars of its own would only disturb ours.
hide_bars: Any = logging.disable_progress_bar
hide_bars()


def save_model(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write `model` rounded to bfloat16. The configuration asks for float32, so that loading computes in it."""
    rounded: Any = copy.deepcopy(model)
    rounded.to(torch.bfloat16)
    generation = {
        "do_sample": False,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    rounded.generation_config = GenerationConfig.from_dict(generation)
    rounded.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    edit_json(folder / "config.json", {"dtype": "float32"}, drop=())
    edit_json(folder / "tokenizer_config.json", {}, drop=("is_local", "local_files_only"))
    # The writer leaves the weights readable by their owner alone.
    (folder / "model.safetensors").chmod(0o644)


def edit_json(file: Path, changes: dict[str, Any], drop: tuple[str, ...]) -> None:
    """Change top-level entries of a JSON file, and drop those that only say how it was loaded before."""
    content = json.loads(file.read_text(encoding="utf-8"))
    kept = {key: value for key, value in content.items() if key not in drop}
    file.write_text(json.dumps({**kept, **changes}, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def load_model(folder: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The model in float32, ready to evaluate, and its tokenizer."""
    model: LlamaForCausalLM = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    model.train(False)
    return model, load_tokenizer(folder)
