"""The registry of draft kinds: every part that it names exists, and reading it imports none of them."""

import importlib
import inspect
import json
import subprocess
import sys

import pytest

from common.draft_kinds import DRAFT_KINDS, LOOKUP, TRAINED_KINDS, DraftKind, DraftParts
from common.draft_models.directory import DraftFacts
from common.draft_models.exporters import _LOADERS
from common.drafters.load import DrafterConfig
from common.protocol.draft_state import DIMENSIONS
from training.draft_models.recipe import Recipe

EVERY = pytest.mark.parametrize("kind", DRAFT_KINDS.values(), ids=list(DRAFT_KINDS))
TRAINED = pytest.mark.parametrize("kind", TRAINED_KINDS, ids=[kind.name for kind in TRAINED_KINDS])
ON_TAIL = [kind for kind in TRAINED_KINDS if kind.parts is DraftParts.ON_TAIL]


@EVERY
def test_a_kind_has_a_drafter_that_can_be_loaded(kind: DraftKind) -> None:
    load = importlib.import_module(f"common.drafters.{kind.name}").load
    (config,) = inspect.signature(load).parameters.values()
    assert config.annotation in (DrafterConfig, "DrafterConfig")


@pytest.mark.parametrize("kind", ON_TAIL, ids=[kind.name for kind in ON_TAIL])
def test_a_kind_on_the_tail_has_a_network_of_its_name_that_tells_its_facts(kind: DraftKind) -> None:
    network = importlib.import_module(f"common.draft_models.{kind.name}")
    assert kind.name == network.KIND
    assert list(inspect.signature(network.read_facts).parameters) == ["directory"]
    assert inspect.signature(network.read_facts, eval_str=True).return_annotation is DraftFacts


@TRAINED
def test_a_kind_with_weights_has_a_recipe_whose_command_offers_its_options(kind: DraftKind) -> None:
    recipe = importlib.import_module(f"training.draft_models.recipes.{kind.name}")
    target, *options = inspect.signature(recipe.build).parameters.values()
    made = inspect.signature(recipe.build, eval_str=True).return_annotation
    assert target.name == "target"
    assert made.kind == kind.name
    assert all(hasattr(made, name) for name in vars(Recipe) if not name.startswith("_"))
    own = importlib.import_module("training.draft_models.commands").own_options(kind.name)
    assert set(own()) == {option.name for option in options}, "all of them None or False: the recipe's defaults stand"


@EVERY
def test_the_state_of_a_kind_can_be_exported_and_sent(kind: DraftKind) -> None:
    assert kind.state is None or (kind.state in DIMENSIONS and kind.state in _LOADERS)
    assert kind.parts is DraftParts.ON_TAIL or (kind.state is None and not kind.runs_target_layers)


def test_the_kind_without_a_model_is_not_among_those_that_are_trained() -> None:
    assert DRAFT_KINDS[LOOKUP] not in TRAINED_KINDS


BUILT_ON = {"block": "tandem"}

_LOADING_EACH = f"""
import importlib, json, os, sys
import common.draft_kinds
assert "torch" not in sys.modules
import torch  # once, for it takes longer than all else
for kind in {list(DRAFT_KINDS)!r}:
    if not os.fork():
        importlib.import_module(f"common.drafters.{{kind}}")
        print(json.dumps([kind, sorted(sys.modules)]), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, kind
"""


@pytest.fixture(scope="module")
def imported_for() -> dict[str, list[str]]:
    """What is imported where only one kind is loaded, by kind."""
    done = subprocess.run([sys.executable, "-c", _LOADING_EACH], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.parametrize("kind", DRAFT_KINDS)
def test_loading_a_kind_imports_no_other_but_what_it_is_built_on(kind: str, imported_for: dict[str, list[str]]) -> None:
    imported = imported_for[kind]
    assert f"common.drafters.{kind}" in imported
    others = [name for name in DRAFT_KINDS if name not in (kind, BUILT_ON.get(kind))]
    assert not [name for name in others for part in ("drafters", "draft_models") if f"common.{part}.{name}" in imported]
