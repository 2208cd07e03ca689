"""Greedy answers of a model to many prompts at once.

What may live here: batched generation. It may not know tests, scores or cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

LONGEST_ANSWER_TOKENS = 384
BATCH = 32


@dataclass(frozen=True)
class Generation:
    """One greedy answer: its prompt's ids, its own ids without the end token, and whether it ended by itself."""

    prompt_ids: list[int]
    ids: list[int]
    text: str
    ended: bool


def greedy_answers(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompts: Sequence[str]
) -> list[Generation]:
    """One answer per prompt, each of at most `LONGEST_ANSWER_TOKENS` tokens."""
    encoded = [prompt_ids(tokenizer, prompt) for prompt in prompts]
    order = sorted(range(len(prompts)), key=lambda index: len(encoded[index]))
    answers: dict[int, Generation] = {}
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        for index, ids in zip(chosen, generate(model, tokenizer, [encoded[i] for i in chosen]), strict=True):
            ended = tokenizer.eos_token_id in ids
            kept = ids[: ids.index(tokenizer.eos_token_id)] if ended else ids
            answers[index] = Generation(encoded[index], kept, str(tokenizer.decode(kept)), ended)
    return [answers[index] for index in range(len(prompts))]


def prompt_ids(tokenizer: PreTrainedTokenizerFast, prompt: str) -> list[int]:
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
    )
    return list(tokenizer.encode(text, add_special_tokens=False))


@torch.inference_mode()
def generate(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompts: Sequence[list[int]]
) -> list[list[int]]:
    width = max(len(ids) for ids in prompts)
    padded = [[tokenizer.pad_token_id] * (width - len(prompt)) + prompt for prompt in prompts]
    ids = torch.tensor(padded, device=model.device)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=model.device)
    generator: Any = model
    out = generator.generate(input_ids=ids, attention_mask=mask, max_new_tokens=LONGEST_ANSWER_TOKENS, do_sample=False)
    return [list(row) for row in out[:, width:].tolist()]
