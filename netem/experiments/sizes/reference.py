"""What transformers' own classes answer, in a process of its own. It may not know our servers or clients."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from common.models.agreement import TOLERANCES
from common.models.checkpoint import load_causal_lm, load_tokenizer
from netem.experiments.references import NEAR_TIE, Reference, reference_answer


@dataclass(frozen=True, slots=True)
class ReferenceRun:
    """near_tie: gaps below it may be rounding. In half precision logits are rounded, so that it is the tolerance of
    passes, which is in units of the logits' spread."""

    reference: Reference
    near_tie: float


def answer_by_generate(
    directory: Path, dtype: str, prompt: str, ends: tuple[int, ...], max_new_tokens: int, device: str = "cpu"
) -> ReferenceRun:
    """The greedy answer to a prompt through the checkpoint's chat template."""
    torch.set_num_threads(1)
    tokenizer = load_tokenizer(directory)
    ids: Any = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    model = load_causal_lm(directory, device, dtype)
    reference = reference_answer(model, ids, ends, max_new_tokens)
    if model.dtype.itemsize >= torch.float32.itemsize:
        return ReferenceRun(reference, NEAR_TIE)
    with torch.inference_mode():
        spread = float(model(torch.tensor([ids], device=model.device)).logits[0, -1].float().std())
    return ReferenceRun(reference, TOLERANCES[model.dtype] * spread)
