"""A measurement takes memory for the prompts that it answers, not for the target's whole context."""

import importlib
from mmap import mmap
from typing import Any

import pytest

from common.draft_kinds import TRAINED_KINDS
from tests.training.draft_models.rehearsal import measure, random_target
from training.draft_models.features import FrozenTarget

CONTEXT = 2**24


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> FrozenTarget:
    made = random_target(tmp_path_factory.mktemp("long"))
    made.config.max_position_embeddings = CONTEXT
    assert made.context == CONTEXT
    return made


@pytest.mark.parametrize("kind", [kind.name for kind in TRAINED_KINDS])
def test_a_short_prompt_takes_memory_for_its_own_length(
    kind: str, target: FrozenTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped: list[int] = []

    def recorded(descriptor: int, size: int, **options: Any) -> mmap:
        mapped.append(size)
        return mmap(descriptor, size, **options)

    monkeypatch.setattr("common.models.key_values.mmap", recorded)
    options = {"size": 3.0} if kind in ("glide", "tandem") else {}
    recipe = importlib.import_module(f"training.draft_models.recipes.{kind}").build(target, **options)
    assert measure(recipe, target, [[11, 45, 7]], 2).accept_length >= 1
    assert 0 < sum(mapped) < CONTEXT  # bytes: less than one for each position of the context
