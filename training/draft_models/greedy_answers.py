"""The target's greedy answers to a batch of prompts, by transformers' own `generate`.

What may live here: padding, K/V of the rows that go on, the end of each answer. It may not know conversations, samples
or files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import DynamicCache, GenerationConfig

from training.draft_models.features import FrozenTarget


@torch.no_grad()
def greedy_answers(target: FrozenTarget, prompts: Sequence[list[int]], rooms: Sequence[int]) -> list[list[int]]:
    """The answer to each prompt of token ids, with its end token, or cut to as many tokens as `rooms` has for it, which
    is at least one. No answer depends on what is beside it.

    All rows go on until the one with the least room is full, and the others then go on without it: behind a full row
    are positions that the target may not have.
    """
    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts], device=target.device)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=target.device)
    cache = DynamicCache(config=target.config.get_text_config(decoder=True))
    answers: list[list[int]] = [[] for _ in prompts]
    rows = list(range(len(prompts)))
    for room in sorted(set(rooms)):
        ids = _go_on(target, ids, mask, cache, width + room - ids.shape[1])
        for row, made in zip(rows, ids[:, width:].tolist(), strict=True):
            answers[row] = until_end(made, target.end_tokens)
        going_on = [
            index for index, row in enumerate(rows) if rooms[row] > room and answers[row][-1] not in target.end_tokens
        ]
        if not going_on:
            break
        rows = [rows[index] for index in going_on]
        kept = torch.tensor(going_on, device=target.device)
        ids = ids[kept]
        mask = pad(mask[kept], (0, ids.shape[1] - mask.shape[1]), value=1)
        cache.batch_select_indices(kept)
    return answers


def _go_on(
    target: FrozenTarget, ids: torch.Tensor, mask: torch.Tensor, cache: DynamicCache, tokens: int
) -> torch.Tensor:
    """`ids` with so many more tokens, or fewer if every row has ended. The cache then holds all but the last one."""
    ends = sorted(target.end_tokens)
    model: Any = target.model
    greedy = _settings(
        do_sample=False, max_new_tokens=tokens, eos_token_id=ends or None, pad_token_id=ends[0] if ends else 0
    )
    with without_choices_of_its_own(model):
        extended: torch.Tensor = model.generate(
            input_ids=ids, attention_mask=mask, past_key_values=cache, generation_config=greedy
        )
    return extended


@contextmanager
def without_choices_of_its_own(model: Any) -> Iterator[None]:
    """Checkpoints choose penalties, beams, caches, stop strings and more, and `generate` takes from them whatever its
    caller leaves open. A greedy answer depends on none of it."""
    chosen = model.generation_config
    model.generation_config = _settings()
    try:
        yield
    finally:
        model.generation_config = chosen


def _settings(**chosen: Any) -> Any:
    make: Any = GenerationConfig
    return make(**chosen)


def until_end(answer: list[int], end_tokens: frozenset[int]) -> list[int]:
    end = next((index for index, token in enumerate(answer) if token in end_tokens), len(answer))
    return answer[: end + 1]
