"""What tests of all recipes share."""

import copy
from weakref import WeakKeyDictionary

import pytest
from torch.nn import Module
from transformers import PreTrainedModel

from training.draft_models.features import FrozenTarget
from training.draft_models.tail_forward import frozen_tail

_tails: WeakKeyDictionary[Module, dict[int, PreTrainedModel]] = WeakKeyDictionary()


@pytest.fixture(autouse=True)
def tails_of_each_target_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing and reading one takes longer than all else that makes a recipe. Each recipe has a copy, to change or not.
    `tests/training/draft_models/test_tail_forward.py` has how it is made."""

    def once(target: FrozenTarget, depth: int) -> PreTrainedModel:
        of_target = _tails.setdefault(target.model, {})
        if depth not in of_target:
            of_target[depth] = frozen_tail(target, depth)
        return copy.deepcopy(of_target[depth])

    for module in ("decoder_recipe", "recipes.block", "recipes.dflash", "recipes.moa"):
        monkeypatch.setattr(f"training.draft_models.{module}.frozen_tail", once)
