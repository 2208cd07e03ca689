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

from training.demo.tokenizer import load_tokenizer


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
    settings = folder / "config.json"
    config = json.loads(settings.read_text(encoding="utf-8"))
    config["dtype"] = "float32"
    settings.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def load_model(folder: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The model in float32, ready to evaluate, and its tokenizer."""
    model: LlamaForCausalLM = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    model.train(False)
    return model, load_tokenizer(folder)
