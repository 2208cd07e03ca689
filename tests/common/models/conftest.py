"""Checkpoints and models, made once per run. Tests may read them and must not change them."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from tests.families import make_checkpoint

CAPACITY = 400


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`checkpoint(family, tied=..., sharded=..., seed=...)` -> its directory."""

    @cache
    def make(family: str, **options: object) -> Path:
        return make_checkpoint(tmp_path_factory.mktemp(family), family, **options)

    return make


@pytest.fixture(scope="session")
def reference(checkpoint: Callable[..., Path]) -> Callable[[str], PreTrainedModel]:
    """The family's model in float64 under transformers' own attention."""
    return cache(lambda family: load_causal_lm(checkpoint(family), dtype=torch.float64))


@pytest.fixture(scope="session")
def _taken_over(checkpoint: Callable[..., Path]) -> Callable[[str], PreTrainedModel]:
    return cache(lambda family: load_causal_lm(checkpoint(family), dtype=torch.float64))


@pytest.fixture
def packed(_taken_over: Callable[[str], PreTrainedModel]) -> Callable[[str], PackedModel]:
    """The same model with a pool of its own, in which every slot holds values that an earlier session left."""

    def build(family: str) -> PackedModel:
        model = PackedModel(_taken_over(family), CAPACITY)
        for layers, value in ((model.pool.keys_KSD, 3.0), (model.pool.values_KSV, -7.0)):
            for layer in layers:
                layer.fill_(value)
        return model

    return build
