"""What apps ask, half of it drawn with a seed, and what transformers' own `generate` answers.

Knows prompts, the target and its tokenizer, not endpoints.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from client.assembly import Client
from client.demo.asking import prompt_tokens
from client.text import answer_text
from common.protocol.sampling import LIKELIEST
from netem.experiments.coupled import SAMPLINGS, sampled_answer
from netem.experiments.exactness import reference_answer
from netem.experiments.experiment import Advance
from netem.experiments.service.apps import Question

MODEL = "outrider"
SEEDS = 1_000_003


def make_questions(
    target: Path, texts: Sequence[str], client: Client, longest: int, seed: int, advance: Advance, share: float
) -> list[Question]:
    """Each text twice, greedily and drawn; `share` of the whole run's time is this."""
    from common.models.checkpoint import load_causal_lm

    model: Any = load_causal_lm(target)
    ends, questions = client.description.end_tokens, []
    for index, text in enumerate(texts):
        advance("transformers generate", share * index / len(texts))
        prompt = prompt_tokens(client, text)
        sampling = replace(SAMPLINGS[index % len(SAMPLINGS)], seed=seed * SEEDS + index)
        for each, answer in (
            (LIKELIEST, reference_answer(model, prompt, ends, longest)),
            (sampling, sampled_answer(model, prompt, ends, sampling, longest)),
        ):
            body = {
                "model": MODEL,
                "messages": [{"role": "user", "content": text}],
                "max_tokens": longest,
                "temperature": each.temperature,
                "top_p": each.top_p,
                "seed": each.seed,
                "extra_body": {
                    "top_k": each.top_k,
                    "min_p": each.min_p,
                    "repetition_penalty": each.repetition_penalty,
                },
            }
            questions.append(Question(body, answer_text(client.tokenizer, answer.answer)))
    return questions
