"""The greedy answers of transformers' own `generate`, for tests of exactness."""

from collections.abc import Sequence
from pathlib import Path

import torch

from common.models.checkpoint import load_causal_lm


class Reference:
    """A checkpoint in float64, generating one sequence at a time."""

    def __init__(self, directory: Path):
        self._model = load_causal_lm(directory, dtype="float64")
        self._answers: dict[tuple[tuple[int, ...], int], list[int]] = {}

    def answer(self, prompt: Sequence[int], count: int) -> list[int]:
        """Up to an end token or `count` tokens. Each is generated once, for many tests ask for the same."""
        asked = tuple(prompt), count
        if asked not in self._answers:
            self._answers[asked] = self._generate(prompt, count)
        return [*self._answers[asked]]

    def _generate(self, prompt: Sequence[int], count: int) -> list[int]:
        ids = torch.tensor([list(prompt)])
        made = self._model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count, pad_token_id=0
        )
        return [int(token) for token in made[0, len(prompt) :]]

    @torch.inference_mode()
    def regrets(self, prompt: Sequence[int], answer: Sequence[int]) -> list[float]:
        """How far each token's logit lies below the largest at its position: 0 for the argmax."""
        logits = self._model(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
        return (logits.amax(-1) - logits.gather(-1, torch.tensor(answer)[:, None])[:, 0]).tolist()
