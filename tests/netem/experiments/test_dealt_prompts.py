"""Which prompts are sampled how."""

from dataclasses import replace

import pytest

from netem.experiments import precision_run, ranks
from netem.experiments.dealt_prompts import dealt_sampling_of
from netem.experiments.references import SAMPLINGS


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
