"""Judging saved models: pass@1, loops, lengths, loss, and the draft's agreement with the target.

What may live here: the scores and how they are computed from answers. It may not know training or the card's text.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from training.demo.answering import Answer, agreement, greedy_answers
from training.demo.check import passes
from training.demo.measures import accept_length, loops
from training.demo.prompts import UNSEEN_QUESTIONS, judged_prompts
from training.demo.render import Instance
from training.demo.tokenizer import encode_turns

AHEAD = 4


@dataclass(frozen=True)
class CodeScore:
    """Scores on one set of coding prompts; shares from 0 to 1, loss in nats per answer token."""

    prompts: int
    pass_at_1: float
    median_answer_tokens: float
    looping: float
    ended: float
    loss: float
    failed_families: dict[str, str]


@dataclass(frozen=True)
class TalkScore:
    """Scores on small talk and unseen questions, with a few answers to read."""

    prompts: int
    looping: float
    ended: float
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DraftScore:
    """How often the draft's greedy token is the target's, and tokens per target pass with `AHEAD` drafted."""

    answers: int
    agreement: float
    accept_length: float


@dataclass(frozen=True)
class Scores:
    """Everything measured on the saved models."""

    instances: CodeScore
    families: CodeScore
    talk: TalkScore
    draft: dict[str, DraftScore]
    example: tuple[str, str]


def evaluate(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    draft: LlamaForCausalLM,
    count: int,
    report: Callable[[str], None] = lambda stage: None,
) -> Scores:
    """Greedy answers to `count` prompts of each coding split and to small talk, scored."""
    judged = judged_prompts(count)
    report("held-out instances")
    known = greedy_answers(target, tokenizer, [instance.prompt for instance in judged.instances])
    report("held-out families")
    new = greedy_answers(target, tokenizer, [instance.prompt for instance in judged.families])
    report("small talk")
    talk = greedy_answers(target, tokenizer, judged.talk)
    report("tests")
    return Scores(
        code_score(target, tokenizer, judged.instances, known),
        code_score(target, tokenizer, judged.families, new),
        talk_score(judged.talk, talk),
        {
            name: draft_score(draft, answers, tokenizer.eos_token_id)
            for name, answers in {
                "held-out instances": known,
                "held-out families": new,
                "small talk, trained wordings": talk[len(UNSEEN_QUESTIONS) :],
                "unseen questions": talk[: len(UNSEEN_QUESTIONS)],
            }.items()
        },
        (judged.instances[0].prompt, known[0].text),
    )


def code_score(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    instances: Sequence[Instance],
    answers: Sequence[Answer],
) -> CodeScore:
    right = [passes(answer.text, instance.tests) for instance, answer in zip(instances, answers, strict=True)]
    return CodeScore(
        prompts=len(instances),
        pass_at_1=statistics.fmean(right),
        median_answer_tokens=statistics.median(len(answer.ids) for answer in answers),
        looping=statistics.fmean(loops(answer.ids) for answer in answers),
        ended=statistics.fmean(answer.ended for answer in answers),
        loss=reference_loss(model, tokenizer, instances),
        failed_families=failures(instances, right),
    )


def failures(instances: Sequence[Instance], right: Sequence[bool]) -> dict[str, str]:
    """Families with a failed instance, as "failed/asked"."""
    asked: dict[str, list[bool]] = {}
    for instance, passed in zip(instances, right, strict=True):
        asked.setdefault(instance.family, []).append(passed)
    return {
        family: f"{len(passed) - sum(passed)}/{len(passed)}"
        for family, passed in sorted(asked.items())
        if not all(passed)
    }


@torch.inference_mode()
def reference_loss(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, instances: Sequence[Instance]) -> float:
    """Mean cross-entropy of the reference answers' tokens."""
    total, count = 0.0, 0
    for instance in instances:
        encoded = encode_turns(tokenizer, ((instance.prompt, instance.answer),))
        ids = torch.tensor([encoded.ids])
        learned = torch.tensor(encoded.learn[1:])
        logits = model(input_ids=ids).logits[0, :-1][learned]
        total += float(functional.cross_entropy(logits, ids[0, 1:][learned], reduction="sum"))
        count += int(learned.sum())
    return total / count


def talk_score(prompts: Sequence[str], answers: Sequence[Answer]) -> TalkScore:
    return TalkScore(
        prompts=len(prompts),
        looping=statistics.fmean(loops(answer.ids) for answer in answers),
        ended=statistics.fmean(answer.ended for answer in answers),
        examples=tuple((prompt, answer.text) for prompt, answer in list(zip(prompts, answers, strict=True))[:12]),
    )


def draft_score(draft: LlamaForCausalLM, answers: Sequence[Answer], end: int) -> DraftScore:
    agreed = [agreement(draft, answer, end) for answer in answers if answer.ids]
    return DraftScore(
        answers=len(agreed),
        agreement=sum(map(sum, agreed)) / max(1, sum(map(len, agreed))),
        accept_length=statistics.fmean(accept_length(same, AHEAD) for same in agreed) if agreed else 0.0,
    )
