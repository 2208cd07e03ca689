"""Judging a saved target: right answers, loops, lengths and loss, category by category.

What may live here: the scores and how they are computed from answers. It may not know training or the card's text.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from training.demo.answering import Generation, greedy_answers
from training.demo.check import RESULT_CHECKS, passes
from training.demo.prompts import HELD_OUT_FAMILIES, UNSEEN_QUESTIONS, HeldOut, judged_prompts
from training.demo.tokenizer import encode_turns

LONGEST_PERIOD = 40
SHORTEST_LOOP = 24
REPEATS = 3


@dataclass(frozen=True)
class SetScore:
    """Scores on one set of held-out prompts; shares from 0 to 1, loss in nats per token of the generator's answer.

    `right` is None where no program can tell. `verbatim` counts answers that are the generator's, word for word.
    """

    prompts: int
    right: float | None
    verbatim: float
    median_answer_tokens: float
    looping: float
    ended: float
    loss: float
    failed_families: dict[str, str]
    example: tuple[str, str]


@dataclass(frozen=True)
class Scores:
    """Everything measured on a saved target: its sets by name, and its answers to questions that no generator asks."""

    sets: dict[str, SetScore]
    unseen: tuple[tuple[str, str], ...]

    @property
    def pass_at_1(self) -> tuple[float, float]:
        """Shares of coding prompts that pass their tests: known families, the first held-out families."""
        return self.sets["code"].right or 0.0, self.sets[HELD_OUT_FAMILIES].right or 0.0


def evaluate(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    count: int,
    report: Callable[[str], None] = lambda stage: None,
) -> Scores:
    """Greedy answers to `count` prompts of each set, scored."""
    sets = {}
    for name, prompts in judged_prompts(count).items():
        report(f"judging {name}")
        answers = greedy_answers(target, tokenizer, [item.prompt for item in prompts])
        sets[name] = set_score(target, tokenizer, prompts, answers)
    unseen = greedy_answers(target, tokenizer, UNSEEN_QUESTIONS)
    return Scores(sets, tuple((ask, answer.text) for ask, answer in zip(UNSEEN_QUESTIONS, unseen, strict=True)))


def set_score(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[HeldOut],
    answers: Sequence[Generation],
) -> SetScore:
    judged = [is_right(item, answer.text) for item, answer in zip(prompts, answers, strict=True)]
    known = [verdict for verdict in judged if verdict is not None]
    return SetScore(
        prompts=len(prompts),
        right=statistics.fmean(known) if known else None,
        verbatim=statistics.fmean(item.answer == answer.text for item, answer in zip(prompts, answers, strict=True)),
        median_answer_tokens=statistics.median(len(answer.ids) for answer in answers),
        looping=statistics.fmean(loops(answer.ids) for answer in answers),
        ended=statistics.fmean(answer.ended for answer in answers),
        loss=reference_loss(model, tokenizer, prompts),
        failed_families=failures(prompts, judged),
        example=(prompts[0].prompt, answers[0].text),
    )


def is_right(item: HeldOut, answer: str) -> bool | None:
    """Whether the answer passes its tests or states its result; None where neither is known."""
    if item.tests:
        return passes(answer, item.tests)
    return RESULT_CHECKS[item.category](answer, item.result, item.wrong) if item.result else None


def failures(prompts: Sequence[HeldOut], judged: Sequence[bool | None]) -> dict[str, str]:
    """Families with a wrong answer, as "failed/asked"."""
    asked: dict[str, list[bool]] = {}
    for item, right in zip(prompts, judged, strict=True):
        if right is not None:
            asked.setdefault(item.family, []).append(right)
    return {
        family: f"{len(passed) - sum(passed)}/{len(passed)}"
        for family, passed in sorted(asked.items())
        if not all(passed)
    }


@torch.inference_mode()
def reference_loss(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompts: Sequence[HeldOut]) -> float:
    """Mean cross-entropy of the generator's answers, in nats per token."""
    total, count = 0.0, 0
    for item in prompts:
        encoded = encode_turns(tokenizer, ((item.prompt, item.answer),))
        ids = torch.tensor([encoded.ids], device=model.device)
        learned = torch.tensor(encoded.learn[1:], device=model.device)
        logits = model(input_ids=ids).logits[0, :-1][learned]
        total += float(functional.cross_entropy(logits, ids[0, 1:][learned], reduction="sum"))
        count += int(learned.sum())
    return total / count


def loops(ids: Sequence[int]) -> bool:
    """True if some stretch repeats itself: it equals its own shift by a period of at most `LONGEST_PERIOD` tokens
    over `REPEATS` periods and at least `SHORTEST_LOOP` tokens."""
    for period in range(1, LONGEST_PERIOD + 1):
        needed = max(REPEATS * period, SHORTEST_LOOP)
        run = 0
        for index in range(period, len(ids)):
            run = run + 1 if ids[index] == ids[index - period] else 0
            if run >= needed:
                return True
    return False
