"""Measures the accuracy of Medusa's heads: for each head and rank, the share of held-out positions where it was right.

What may live here: measuring it on the target's own answers. It may not know how heads are trained or trees chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from common.draft_models.medusa import RANKS, MedusaDraft
from common.models.packed import PackedModel
from common.models.segment import Segment

# Shape letters: T tokens, E hidden size, H heads, K ranks.


@torch.inference_mode()
def measure_accuracies(
    target: PackedModel, head: torch.nn.Module, draft: MedusaDraft, samples: Sequence[tuple[Sequence[int], int]]
) -> torch.Tensor:
    """Accuracies as float64 [H, K]; 0 where no sample is long enough for a head.

    samples: whole sequences of token ids, prompt and answer, each with the length of its prompt.
    """
    hits = torch.zeros(draft.config.heads, RANKS, dtype=torch.float64)
    counts = torch.zeros(draft.config.heads, 1, dtype=torch.float64)
    for tokens, prompt in samples:
        chain = Segment(tokens, range(len(tokens)), range(-1, len(tokens) - 1))
        hidden_TE = target.forward([chain]).hidden  # noqa: N806
        for index in range(draft.config.heads):
            # The first state that a client drafts from is that of the prompt's last token.
            states = hidden_TE[prompt - 1 : max(prompt - 1, len(tokens) - 2 - index)].to(next(draft.parameters()))
            next_tokens = torch.tensor(tokens[prompt + 1 + index :], device=states.device)
            if len(states) == 0:
                continue
            logits = draft.logits(index, states, head)
            top = logits.topk(min(RANKS, logits.shape[-1])).indices
            hits[index, : top.shape[1]] += (top == next_tokens[:, None]).sum(dim=0).cpu()
            counts[index] += len(states)
    return hits / counts.clamp(min=1)


def whole_sequences(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> list[tuple[list[int], int]]:
    return [([*prompt, *answer], len(prompt)) for prompt, answer in zip(prompts, answers, strict=True)]
