"""Which prompts are sampled how, and what `generate` is left to choose by itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from common.models.checkpoint import load_causal_lm
from netem.experiments import precision_run, ranks
from netem.experiments.references import SAMPLINGS, dealt_sampling_of, reference_answer, sampled_answer
from tests.families import make_checkpoint

PROMPT = [7, 11, 45, 7, 11]


@pytest.mark.parametrize(
    "systems", [len(ranks.SYSTEMS), len(precision_run.DEMO_SYSTEMS), len(precision_run.RANDOM_SYSTEMS)]
)
def test_every_system_meets_all_samplings_with_seeds_of_their_own(systems: int) -> None:
    sampled = [number for number in range(16 * systems) if number // systems % 2]
    samplings = {number: dealt_sampling_of(number, systems, seed=3) for number in sampled}
    for index in range(systems):
        own = {replace(each, seed=0) for number, each in samplings.items() if number % systems == index}
        assert own == {replace(each, seed=0) for each in SAMPLINGS}
    assert len({each.seed for each in samplings.values()}) == len(sampled)


def test_no_reference_has_the_penalties_that_a_checkpoint_asks_for(tmp_path: Path) -> None:
    model = load_causal_lm(make_checkpoint(tmp_path, "llama"))

    def references(ends: tuple[int, ...]) -> list[tuple[int, ...]]:
        greedy = reference_answer(model, PROMPT, ends, 8)
        return [greedy.answer, sampled_answer(model, PROMPT, ends, SAMPLINGS[0], 8).answer]

    own = references((0,))
    model.generation_config.suppress_tokens = sorted({token for answer in own for token in answer})
    assert references((0,)) == own
    assert references(()) == own, "a target may name no end token"
