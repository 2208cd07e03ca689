"""Reference answers by transformers' own `generate`, and the verdict on an answer against one.

May load a target. It may not know links, servers or clients. The noise of sampled answers is all that it shares with
the
server's code.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.protocol.sampling import LIKELIEST, Sampling
from netem.experiments.experiment import Advance

if TYPE_CHECKING:
    import torch

NEAR_TIE = 1e-5
"""Where the two best scores are nearer than this, float32 sums in another order may choose either token."""

SAMPLINGS = (
    Sampling(0.7),
    Sampling(1.0),
    Sampling(0.8, top_k=40, top_p=0.95),
    Sampling(1.0, min_p=0.05, repetition_penalty=1.2),
)
"""The samplings of prompts, in turn."""

_SEEDS_APART = 1_000_003


@dataclass(frozen=True)
class Reference:
    """gaps: between the scores of the two likeliest tokens, at each position of the answer."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    gaps: tuple[float, ...]


def verdict(reference: Reference, tokens: tuple[int, ...], near_tie: float = NEAR_TIE) -> str:
    """'identical', 'near-tie' or 'different', by the first position at which the answers differ."""
    if tokens == reference.answer:
        return "identical"
    pairs = zip(tokens, reference.answer, strict=False)
    differs_at = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
    return "near-tie" if differs_at is not None and reference.gaps[differs_at] < near_tie else "different"


def reference_answer(model: Any, prompt: Sequence[int], end_tokens: Sequence[int], max_new_tokens: int) -> Reference:
    """The greedy answer of transformers' own `generate`, at most `max_new_tokens` long. prompt: token ids. Nothing
    that the checkpoint's generation_config.json asks for is applied, such as a penalty, as no server applies it."""
    generated = _generate(model, prompt, end_tokens, max_new_tokens, output_logits=True, return_dict_in_generate=True)
    best = [logits[0].topk(2).values for logits in generated.logits]
    answer = generated.sequences[0, len(prompt) :].tolist()
    return Reference(tuple(prompt), tuple(answer), tuple(float(two[0] - two[1]) for two in best))


def sampled_answer(
    model: Any, prompt: Sequence[int], end_tokens: Sequence[int], sampling: Sampling, max_new_tokens: int
) -> Reference:
    """The answer of transformers' own `generate` with its logits processors and, as the last of them, Gumbel noise.

    The best perturbed score is a sample of the softmax (Gumbel-max trick)."""
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    noise = _Noise(sampling.seed)
    processors = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty)])
    processors.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        processors.append(TopKLogitsWarper(sampling.top_k))
    processors += [TopPLogitsWarper(sampling.top_p), MinPLogitsWarper(sampling.min_p), noise]
    generated = _generate(model, prompt, end_tokens, max_new_tokens, logits_processor=processors)
    return Reference(tuple(prompt), tuple(generated[0, len(prompt) :].tolist()), tuple(noise.gaps))


def _generate(model: Any, prompt: Sequence[int], end_tokens: Sequence[int], max_new_tokens: int, **asked: Any) -> Any:
    import torch

    from training.draft_models.greedy_answers import without_choices_of_its_own

    ends = list(end_tokens)
    with without_choices_of_its_own(model):
        return model.generate(
            torch.tensor([list(prompt)], device=model.device),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long, device=model.device),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            eos_token_id=ends or None,
            pad_token_id=ends[0] if ends else 0,
            **asked,
        )


class _Noise:
    """A logits processor of transformers: adds Gumbel noise, and notes how far apart the two best then are."""

    def __init__(self, seed: int):
        self.gaps: list[float] = []
        self._seed = seed

    def __call__(self, input_ids: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        import numpy as np
        import torch

        from common.protocol.noise import gumbel

        noise = gumbel(self._seed, input_ids.shape[-1], np.arange(scores.shape[-1]))
        perturbed = scores.double() + torch.from_numpy(noise)
        best = perturbed[0].topk(2).values
        self.gaps.append(float(best[0] - best[1]))
        return perturbed


@dataclass(frozen=True, slots=True)
class ReferenceQuestion:
    """A prompt with the rule and the sampling that a server is asked for, and the reference answer."""

    rule: str
    sampling: Sampling
    reference: Reference


def make_reference_questions(
    target: Path,
    prompts: Sequence[Sequence[int]],
    end_tokens: tuple[int, ...],
    max_new_tokens: int,
    seed: int,
    advance: Advance,
    share: float,
) -> list[ReferenceQuestion]:
    """Two questions for each prompt: a greedy one, then a sampled one with a seed of its own.

    prompts: token ids. share: the share of the whole run that this takes, for `advance`.
    """
    from common.models.checkpoint import load_causal_lm

    model: Any = load_causal_lm(target)
    questions = []
    for index, tokens in enumerate(prompts):
        advance("transformers generate", share * index / len(prompts))
        prompt = list(tokens)
        greedy = reference_answer(model, prompt, end_tokens, max_new_tokens)
        questions.append(ReferenceQuestion("greedy", LIKELIEST, greedy))
        sampling = sampling_of(index, seed)
        sampled = sampled_answer(model, prompt, end_tokens, sampling, max_new_tokens)
        questions.append(ReferenceQuestion("coupled", sampling, sampled))
    return questions


def sampling_of(index: int, seed: int) -> Sampling:
    """The sampling of prompt number `index`: SAMPLINGS in turn, each with a seed of its own."""
    return replace(SAMPLINGS[index % len(SAMPLINGS)], seed=seed * _SEEDS_APART + index)
