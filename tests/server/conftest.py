"""Checkpoints that many tests share, made once."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.drafts import make_moa_draft
from tests.families import make_checkpoint
from tests.server.reference import Reference


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A random model of a family, by the family's name."""
    return cache(lambda family: make_checkpoint(tmp_path_factory.mktemp(family), family, sharded=family == "llama"))


@pytest.fixture(scope="session")
def reference(checkpoint: Callable[[str], Path]) -> Callable[[str], Reference]:
    return cache(lambda family: Reference(checkpoint(family)))


@pytest.fixture(scope="session")
def target(checkpoint: Callable[[str], Path]) -> Path:
    return checkpoint("llama")


@pytest.fixture(scope="session")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smaller model with the target's tokenizer."""
    return make_checkpoint(tmp_path_factory.mktemp("models") / "small", "qwen3", layers=1, seed=5)


@pytest.fixture(scope="session")
def foreign_draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with another tokenizer than the target's."""
    return make_checkpoint(tmp_path_factory.mktemp("models") / "foreign", "llama", layers=1, vocab=270)


@pytest.fixture(scope="session")
def alien_draft(tmp_path_factory: pytest.TempPathFactory, checkpoint: Callable[[str], Path]) -> Path:
    """A draft that needs the state of another target."""
    return make_moa_draft(tmp_path_factory.mktemp("models") / "alien", checkpoint("qwen3"))
