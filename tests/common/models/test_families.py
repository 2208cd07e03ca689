"""Which rotary embeddings passes support: those that depend on one sequence alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from common.draft_models.tail import load_tail, write_tail
from common.models.checkpoint import load_causal_lm, load_config
from common.models.errors import CheckpointError
from common.models.packed import PackedModel
from common.models.segment import Segment
from tests.families import FAMILIES, make_checkpoint

ORIGINAL = 16  # positions before a checkpoint scales
HALF = 4  # of a head's dimension

LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0] * HALF,
    "long_factor": [8.0] * HALF,
    "factor": 4.0,
    "original_max_position_embeddings": ORIGINAL,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}
BY_THE_LONGEST = {"longrope": LONGROPE, "dynamic": DYNAMIC}
BY_EACH = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": ORIGINAL,
    },
}

Make = Callable[[str, dict[str, Any]], Path]


@pytest.fixture
def scaled(tmp_path: Path) -> Make:
    """A checkpoint whose configuration scales positions, as transformers writes it."""

    def make(family: str, scaling: dict[str, Any]) -> Path:
        directory = make_checkpoint(tmp_path / "scaled", family)
        model = AutoModelForCausalLM.from_pretrained(directory)
        config: Any = model.config
        config.max_position_embeddings = 4 * ORIGINAL
        config.rope_parameters = {"rope_theta": 10_000.0, **scaling}
        config.save_pretrained(directory)
        return directory

    return make


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scaling", BY_THE_LONGEST)
def test_positions_that_the_longest_sequence_of_a_pass_decides_are_refused(
    scaled: Make, tmp_path: Path, family: str, scaling: str
) -> None:
    tail = tmp_path / "tail"
    write_tail(make_checkpoint(tmp_path / "plain", family), 2, tail)
    directory = scaled(family, BY_THE_LONGEST[scaling])
    of_tail, of_scaled = (json.loads((each / "config.json").read_text()) for each in (tail, directory))
    (tail / "config.json").write_text(json.dumps({**of_tail, "rope_parameters": of_scaled["rope_parameters"]}))

    def export(target: Path) -> None:
        write_tail(target, 2, tmp_path / "of scaled")

    for load in (load_config, load_causal_lm, export, lambda _: load_tail(tail, 1, "cpu", "float32")):
        with pytest.raises(CheckpointError, match=rf"\(rope type '{scaling}'\), which would let sessions change"):
            load(directory)


def test_positions_are_refused_however_a_configuration_writes_them(tmp_path: Path) -> None:
    directory = make_checkpoint(tmp_path / "old", "llama")
    path = directory / "config.json"
    config = json.loads(path.read_text())
    config.pop("rope_parameters", None)
    path.write_text(json.dumps({**config, "rope_theta": 10_000.0, "rope_scaling": {"type": "dynamic", "factor": 2.0}}))
    with pytest.raises(CheckpointError, match="rope type 'dynamic'"):
        load_causal_lm(directory)


@pytest.mark.parametrize("scaling", BY_EACH)
def test_a_row_of_several_sequences_gives_each_sequence_what_it_gets_alone(scaled: Make, scaling: str) -> None:
    """A long sequence beside a short one, which would show scaling by the longest."""
    directory = scaled("llama", BY_EACH[scaling])
    alone = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float64)
    packed = PackedModel(load_causal_lm(directory, dtype=torch.float64), capacity=100)
    sequences = [list(range(5, 12)), list(range(20, 20 + 3 * ORIGINAL))]
    segments, slots = [], iter(range(100))
    for tokens in sequences:
        taken = [next(slots) for _ in tokens]
        segments.append(Segment(tokens, taken, range(-1, len(tokens) - 1), wanted=range(len(tokens))))
    logits = packed.forward(segments).logits
    expected = torch.cat([alone(torch.tensor([tokens])).logits[0] for tokens in sequences])
    torch.testing.assert_close(logits, expected, atol=1e-9, rtol=1e-9)
