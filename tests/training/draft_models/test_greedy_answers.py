"""Greedy answers are those of each prompt alone, whatever room and end the others have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.families import FAMILIES, SLIDING_WINDOW, make_checkpoint
from training.draft_models.features import FrozenTarget, load_target
from training.draft_models.greedy_answers import greedy_answers, until_end

LENGTHS, ROOMS = (23, 40, 5, 31), (30, 3, 25, 12)
PROMPTS = [[(7 * index + 13 * length) % 250 + 5 for index in range(length)] for length in LENGTHS]


def load(tmp_path: Path, family: str) -> FrozenTarget:
    """A target whose answers have no end."""
    path = make_checkpoint(tmp_path / family, family, seed=1)
    return replace(load_target(str(path), torch.device("cpu"), "float64"), end_tokens=frozenset())


@torch.no_grad()
def alone(target: FrozenTarget, prompt: list[int], room: int) -> list[int]:
    """The greedy answer by whole forwards, without a cache."""
    ids = list(prompt)
    while len(ids) < len(prompt) + room and (ids == prompt or ids[-1] not in target.end_tokens):
        ids.append(int(target.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_answer_depends_on_what_is_beside_it(tmp_path: Path, family: str) -> None:
    assert max(ROOMS) > SLIDING_WINDOW
    target = load(tmp_path, family)
    expected = [alone(target, prompt, room) for prompt, room in zip(PROMPTS, ROOMS, strict=True)]
    assert greedy_answers(target, PROMPTS, ROOMS) == expected
    assert [len(answer) for answer in expected] == list(ROOMS)


@pytest.mark.parametrize("index", range(4))
def test_the_others_go_on_when_one_ends(tmp_path: Path, index: int) -> None:
    target = load(tmp_path, "llama")
    # Whatever this row says second ends all answers now.
    end = alone(target, PROMPTS[index], 2)[-1]
    ending = replace(target, end_tokens=frozenset([end]))
    expected = [alone(ending, prompt, room) for prompt, room in zip(PROMPTS, ROOMS, strict=True)]
    assert len(expected[index]) <= 2
    assert greedy_answers(ending, PROMPTS, ROOMS) == expected


def test_no_row_is_run_beyond_its_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, longest = load(tmp_path, "llama"), 0
    rooms = [44 - length for length in LENGTHS]
    forward = target.model.forward

    def watched(*arguments: Any, position_ids: torch.Tensor, **named: Any) -> Any:
        nonlocal longest
        longest = max(longest, int(position_ids.max()))
        return forward(*arguments, position_ids=position_ids, **named)

    monkeypatch.setattr(target.model, "forward", watched)
    assert [len(answer) for answer in greedy_answers(target, PROMPTS, rooms)] == rooms
    assert longest == 44 - 2, "the last token is not run"


@pytest.mark.parametrize(
    "chosen",
    [
        {"cache_implementation": "static", "use_cache": False, "repetition_penalty": 1.5},
        {"num_beams": 4},
        {"num_beams": 4, "num_return_sequences": 2},
        {"stop_strings": ["e", "the"]},
        {"no_repeat_ngram_size": 1, "min_new_tokens": 20},
        {"suppress_tokens": list(range(100, 290)), "bad_words_ids": [[7]]},
        {"do_sample": True, "temperature": 5.0, "top_k": 3},
        {"max_length": 5, "max_time": 1e-9},
        {"return_dict_in_generate": True, "output_logits": True},
        {"prompt_lookup_num_tokens": 3},
        {"guidance_scale": 2.0},
    ],
    ids=lambda chosen: next(iter(chosen)),
)
def test_what_a_checkpoint_chooses_changes_no_answer(tmp_path: Path, chosen: dict[str, Any]) -> None:
    target = load(tmp_path, "llama")
    expected = greedy_answers(target, PROMPTS, ROOMS)
    config: Any = target.model.generation_config
    for name, value in chosen.items():
        setattr(config, name, value)
    assert greedy_answers(target, PROMPTS, ROOMS) == expected
    assert target.model.generation_config is config


def test_an_answer_stops_with_its_end() -> None:
    assert until_end([5, 0, 7, 0], frozenset([0])) == [5, 0]
    assert until_end([5, 7], frozenset([0])) == [5, 7]
