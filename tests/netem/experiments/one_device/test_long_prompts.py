"""Long prompts hold other conversations before the question that is measured, and never its answer."""

from types import SimpleNamespace
from typing import Any

import pytest

from common.models.checkpoint import load_tokenizer
from common.protocol.errors import MisuseError
from netem.experiments.one_device.long_prompts import long_prompts
from netem.experiments.one_device.prompts import BenchmarkPrompt
from tests.families import make_checkpoint

TOKENS = 200


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Answers `what is ONE` with `ONE is one`."""
    tokenizer = load_tokenizer(make_checkpoint(tmp_path_factory.mktemp("long"), "llama", layers=1, seed=0))
    return SimpleNamespace(
        tokenizer=tokenizer,
        tokens=lambda prompt: prompt.text,
        plain=lambda text, tokens: SimpleNamespace(rounds=SimpleNamespace(tokens=text)),
        text=lambda text: f"{text.split()[-1]} is one",
    )


def asked(*words: str) -> list[BenchmarkPrompt]:
    return [BenchmarkPrompt("words", "held out", f"what is {word}") for word in words]


async def test_the_measured_question_comes_last_and_once(bench: Any) -> None:
    prompts = {"words": asked("dog", "fox", "hen")}
    made = await long_prompts(bench, prompts, 2, TOKENS, lambda doing, share: None)
    for own, tokens in zip(("dog", "fox"), made["words"], strict=True):
        text = bench.tokenizer.decode(tokens)
        assert len(tokens) >= TOKENS
        assert (text.count(f"what is {own}"), f"{own} is one" in text) == (1, False)
        assert text.count("hen is one") > 1
        assert text.rindex("what is") == text.index(f"what is {own}")


async def test_nothing_can_precede_the_only_prompt_of_a_category(bench: Any) -> None:
    with pytest.raises(MisuseError, match="the category words has one prompt"):
        await long_prompts(bench, {"words": asked("dog")}, 1, TOKENS, lambda doing, share: None)
