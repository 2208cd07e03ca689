"""Scenes that tests of a kind share: made once for each family, with what their target says. Makes no assertions."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch


def scenes_of(
    scene: Callable[[Path, str], Any], tokens: Sequence[int], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Any, tuple[int, ...]]]:
    """By family, with what the target says behind the tokens."""

    @cache
    def make(family: str) -> tuple[Any, tuple[int, ...]]:
        made = scene(tmp_path_factory.mktemp(family), family)
        said = made.target.generate(torch.tensor([tokens]), max_new_tokens=30, do_sample=False, eos_token_id=None)
        return made, tuple(said[0, len(tokens) :].tolist())

    return make
