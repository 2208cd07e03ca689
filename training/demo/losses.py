"""Training losses of the demo models.

What may live here: functions from a model and a batch to a scalar. It may not know data, schedules or files.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from transformers import LlamaForCausalLM

from training.demo.batching import Batch


def learned_logits(model: LlamaForCausalLM, batch: Batch) -> torch.Tensor:
    """Float32 logits [learned places, vocabulary]; other places never reach the output layer."""
    body: Any = model.model
    hidden: torch.Tensor = body(input_ids=batch.ids, use_cache=False).last_hidden_state
    logits: torch.Tensor = model.lm_head(hidden[batch.learn])
    return logits.float()


def answer_loss(model: LlamaForCausalLM, batch: Batch) -> torch.Tensor:
    """Mean cross-entropy of the answer tokens, in nats."""
    return functional.cross_entropy(learned_logits(model, batch), batch.targets)
