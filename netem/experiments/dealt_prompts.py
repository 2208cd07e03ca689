"""Prompts that are dealt to systems in turn, how each is sampled, and how sessions answer those of one system.

It may not know systems, servers or what their answers are compared with.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from client.answer import Answer
from common.protocol.sampling import Sampling
from netem.experiments.references import sampling_of
from netem.experiments.speed.testbed import TokenPrompts


@dataclass(frozen=True, slots=True)
class DealtPrompt:
    """`number` is its place among the prompts of all systems, which take them in turn."""

    number: int
    tokens: tuple[int, ...]


def number_prompts(prompts: Iterable[Sequence[int]]) -> list[DealtPrompt]:
    return [DealtPrompt(number, tuple(tokens)) for number, tokens in enumerate(prompts)]


def number_categories(prompts: TokenPrompts) -> list[DealtPrompt]:
    """One category after the other: where there are as many categories as systems, each system gets some of all."""
    return number_prompts(tokens for of_category in prompts.values() for tokens in of_category)


def dealt_sampling_of(prompt: int, systems: int, seed: int) -> Sampling:
    """As `sampling_of`, of a prompt's number where so many systems take prompts in turn and each samples every other
    one of its own: each meets all samplings."""
    return sampling_of(prompt + prompt // (2 * systems), seed)


async def answer_all(
    prompts: Iterable[DealtPrompt], sessions: int, answer: Callable[[DealtPrompt], Awaitable[Answer]]
) -> dict[int, Answer]:
    """The answers by the prompts' numbers; so many at a time are under way."""
    waiting, answers = iter(prompts), dict[int, Answer]()

    async def answer_in_turn() -> None:
        for prompt in waiting:
            answers[prompt.number] = await answer(prompt)

    await asyncio.gather(*(answer_in_turn() for _ in range(sessions)))
    return answers
