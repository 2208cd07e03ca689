"""Long prompts: earlier turns with the target's own answers, then a held-out prompt. Knows no draft model."""

import asyncio
from collections.abc import Sequence

from client.text import chat_tokens
from common.protocol.errors import MisuseError
from netem.experiments.experiment import Advance
from netem.experiments.one_device.bench import Bench, TokenPrompts
from netem.experiments.one_device.prompts import BenchmarkPrompt, Prompts

_ANSWER_TOKENS = 160


async def long_prompts(bench: Bench, prompts: Prompts, count: int, tokens: int, advance: Advance) -> TokenPrompts:
    """Up to `count` prompts for each category, each just above `tokens` long. The earlier turns are the category's
    other prompts, repeated where there are too few: the answer to the last one is nowhere before it. Raises MisuseError
    for a category of a single prompt."""
    answers: dict[BenchmarkPrompt, str] = {}
    for done, (category, chosen) in enumerate(prompts.items()):
        if len(chosen) == 1:
            raise MisuseError(
                f"the category {category} has one prompt, which nothing can precede; it needs two or more"
            )
        for prompt in chosen:
            advance(f"earlier turns of {category}", done / len(prompts))
            answers[prompt] = bench.text(bench.plain(bench.tokens(prompt), _ANSWER_TOKENS).rounds.tokens)
            await asyncio.sleep(0)
    return {
        category: [
            _long(bench, prompt, [*chosen[index + 1 :], *chosen[:index]], answers, tokens)
            for index, prompt in enumerate(chosen[:count])
        ]
        for category, chosen in prompts.items()
    }


def _long(
    bench: Bench,
    last: BenchmarkPrompt,
    earlier: Sequence[BenchmarkPrompt],
    answers: dict[BenchmarkPrompt, str],
    tokens: int,
) -> list[int]:
    turns: list[dict[str, str]] = []
    rounds = 0
    while True:
        asked = chat_tokens(bench.tokenizer, [*turns, {"role": "user", "content": last.text}])
        if len(asked) >= tokens:
            return asked
        prompt = earlier[rounds % len(earlier)]
        turns += [
            {"role": "user", "content": prompt.text},
            {"role": "assistant", "content": answers[prompt]},
        ]
        rounds += 1
