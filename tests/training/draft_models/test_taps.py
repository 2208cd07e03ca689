"""What a draft reads of a target with three layers: what enters some, and what leaves the last unnormed."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from training.draft_models.recipe import FeatureNeeds, Features
from training.draft_models.taps import needs_of, tapped

TARGET: Any = SimpleNamespace(config=SimpleNamespace(num_hidden_layers=3))


@pytest.mark.parametrize(
    ("taps", "hidden", "unnormed"), [((0, 2), (3, 1), False), ((1, 3), (2,), True), ((3,), (), True)]
)
def test_it_asks_for_what_enters_those_layers_and_for_logits(
    taps: tuple[int, ...], hidden: tuple[int, ...], unnormed: bool
) -> None:
    assert needs_of(TARGET, taps) == FeatureNeeds(hidden=hidden, unnormed=unnormed, logits=True)


def test_states_stand_side_by_side_in_the_order_of_the_taps() -> None:
    entered = {back: torch.full((1, 2, 2), float(3 - back), dtype=torch.bfloat16) for back in (3, 2, 1, 0)}
    given = Features(hidden=entered, unnormed=torch.full((1, 2, 2), 30.0, dtype=torch.bfloat16))
    found = tapped(TARGET, given, (0, 2, 3))
    assert found.dtype is torch.float32
    assert found.tolist() == [[[0.0, 0.0, 2.0, 2.0, 30.0, 30.0]] * 2]
