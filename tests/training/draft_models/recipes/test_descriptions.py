"""A recipe describes all of its options: a model card shows them, and a resumed run may change none."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

from common.draft_kinds import TRAINED_KINDS
from tests.training.draft_models.rehearsal import random_target
from training.draft_models.features import FrozenTarget

NEAR = {
    "size": 3.0,
    "missing": 0.1,
    "alone": 0.3,
    "feature_weight": 0.3,
    "soft_weight": 0.3,
    "hard_weight": 0.3,
    "noise": 0.3,
    "token_weight": 0.3,
}
CHANGED: dict[str, Any] = {
    **{name: number + 1e-7 for name, number in NEAR.items()},
    "length": 3,
    "layers": 3,
    "uncorrected": True,
    "heads": 2,
    "distil": True,
    "blocks": 3,
    "shared_head": True,
    "plus": True,
    "train_target": True,
    "chain": True,
    "feedback_steps": 2,
    "intermediate": 24,
    "kv_heads": 1,
    "draft_vocabulary": 20,
    "hidden": 24,
    "parameters": 20_000,
    "mixer": "mean",
    "published": True,
    "state_width": 8,
    "state_dtype": "int8",
}
"""Of each option a value that is no kind's default; `NEAR` has others that rounding would take for these."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> FrozenTarget:
    return random_target(tmp_path_factory.mktemp("described"))


def build(kind: str, target: FrozenTarget, **options: Any) -> Any:
    given = {"size": 6.0, **options} if kind == "glide" else options  # its default has no room for three layers
    if kind == "moa" and "layers" in given:
        given["layers"] = (given["layers"],)
    return importlib.import_module(f"training.draft_models.recipes.{kind}").build(target, **given)


@pytest.mark.parametrize("kind", [kind.name for kind in TRAINED_KINDS])
def test_another_value_of_any_option_is_another_description(kind: str, target: FrozenTarget) -> None:
    module = importlib.import_module(f"training.draft_models.recipes.{kind}")
    plain = build(kind, target).describe()
    for option in set(inspect.signature(module.build).parameters) - {"target", "start"}:
        changed = build(kind, target, **{option: CHANGED[option]}).describe()
        assert changed != plain, option
        if option in NEAR and (kind, option) != ("moa", "size"):  # of which the widths are described
            assert changed != build(kind, target, **{option: NEAR[option]}).describe(), option


def test_the_draft_that_a_moa_starts_from_is_known_by_its_weights(target: FrozenTarget, tmp_path: Path) -> None:
    recipe, start = build("moa", target), tmp_path / "start"
    start.mkdir()
    recipe.save(start)
    before = build("moa", target, start=start).describe()
    assert build("moa", target, start=start).describe() == before
    for parameter in recipe.module.parameters():
        parameter.data += 0.01
    recipe.save(start)
    assert build("moa", target, start=start).describe() != before


@pytest.mark.parametrize("kind", ["moa", "block", "dflash", "tandem", "glide"])
def test_every_sample_has_all_of_its_state_unless_something_else_is_asked_for(kind: str, target: FrozenTarget) -> None:
    described = build(kind, target).describe()
    assert described["samples that lack a span of state"] == "0%"
    assert described["samples whose state stops for good"] == "0%"


@pytest.mark.parametrize(
    ("kind", "options", "row", "text"),
    [
        ("moa", {}, "starts from", "the target's layers"),
        ("moa", {"published": True}, "starts from", "random weights"),
        ("medusa", {}, "form", "Medusa-1, the target frozen"),
        ("medusa", {"train_target": True}, "form", "Medusa-2, with a new target"),
    ],
)
def test_a_form_is_described_by_its_own_name(
    kind: str, options: dict[str, Any], row: str, text: str, target: FrozenTarget
) -> None:
    assert build(kind, target, **options).describe()[row] == text
