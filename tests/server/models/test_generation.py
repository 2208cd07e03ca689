"""What a target's generation_config.json asks for and no pass applies is told."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from transformers import GenerationConfig

from common.models.errors import CheckpointError
from server.models.generation import _CHANGES_GREEDY, GENERATION, unapplied
from tests.families import make_checkpoint
from tests.server.harness import options_for, running

QWEN = {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05, "eos_token_id": 7}
"""As Qwen2.5's checkpoints have it."""


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        (GenerationConfig(eos_token_id=7).to_dict(), ()),
        ({"temperature": 0.6, "top_p": 0.9, "max_length": 4096, "num_beams": 1, "repetition_penalty": 1.0}, ()),
        ({"bad_words_ids": None, "suppress_tokens": [], "min_length": 0, "no_repeat_ngram_size": 0}, ()),
        (QWEN, ("repetition_penalty",)),
        ({"suppress_tokens": [3], "forced_eos_token_id": 0}, ("suppress_tokens", "forced_eos_token_id")),
    ],
)
def test_only_fields_that_change_greedy_answers_count(
    said: dict[str, Any], fields: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / GENERATION).write_text(json.dumps(said))
    assert unapplied(tmp_path) == fields


def test_a_target_without_the_file_asks_for_nothing_and_a_broken_one_is_named(tmp_path: Path) -> None:
    assert unapplied(tmp_path) == ()
    (tmp_path / GENERATION).write_text("{")
    with pytest.raises(CheckpointError, match=r"generation_config\.json cannot be read as JSON; fetch"):
        unapplied(tmp_path)


def test_transformers_knows_the_fields() -> None:
    assert vars(GenerationConfig()).keys() >= _CHANGES_GREEDY.keys()


async def test_a_server_says_so_when_it_starts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = make_checkpoint(tmp_path / "plain", "llama")
    caplog.set_level(logging.INFO)
    for said, lines in (({"eos_token_id": 7}, 0), (QWEN, 1)):
        (target / GENERATION).write_text(json.dumps(said))
        async with running(options_for(target)):
            pass
        told = [line for line in caplog.messages if "generation_config.json" in line]
        assert len(told) == lines
    assert told[0].startswith(
        "repetition_penalty of plain's generation_config.json would change greedy answers, and no"
    )
