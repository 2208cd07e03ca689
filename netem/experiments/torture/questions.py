"""What is asked, each text by two rules, and what transformers' own `generate` answers.

May load the target. It may not know links, servers or clients.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.protocol.sampling import LIKELIEST
from netem.experiments.coupled import SAMPLINGS, sampled_answer
from netem.experiments.exactness import reference_answer
from netem.experiments.experiment import Advance
from netem.experiments.torture.plan import LONGEST, Question

REFERENCES = 0.15
"""Of a whole run, roughly."""


def make_questions(
    target: Path, prompts: Sequence[Sequence[int]], ends: tuple[int, ...], context: int, seed: int, advance: Advance
) -> list[Question]:
    """The end of each prompt twice, likeliest tokens first, then drawn."""
    from common.models.checkpoint import load_causal_lm

    model: Any = load_causal_lm(target)
    questions = []
    for index, whole in enumerate(prompts):
        advance("transformers generate", REFERENCES * index / len(prompts))
        prompt = list(whole[-(context - LONGEST) :])
        sampling = replace(SAMPLINGS[index % len(SAMPLINGS)], seed=seed * 1_000_003 + index)
        questions.append(Question("greedy", LIKELIEST, reference_answer(model, prompt, ends, LONGEST)))
        drawn = sampled_answer(model, prompt, ends, sampling, LONGEST)
        questions.append(Question("coupled", sampling, drawn))
    return questions
