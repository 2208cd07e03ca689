"""Which rotary embeddings passes support, and how far: where a sequence's depend on itself alone. Sizes are found under
any of their names."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPTNeoConfig,
    LlamaConfig,
    OPTConfig,
    PreTrainedConfig,
    Qwen2VLTextConfig,
)
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLTextModel

from common.draft_models.tail import load_tail, write_tail
from common.models.checkpoint import load_causal_lm, load_config
from common.models.errors import CheckpointError
from common.models.families import context_of, feed_forward_width
from common.models.packed import PackedModel
from common.models.segment import Segment
from tests.families import FAMILIES, make_checkpoint

ORIGINAL = 16  # positions before a checkpoint scales
EXTENDED = 4 * ORIGINAL
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
        config.max_position_embeddings = EXTENDED
        config.rope_parameters = {"rope_theta": 10_000.0, **scaling}
        config.save_pretrained(directory)
        return directory

    return make


def assert_as_alone(directory: Path, sequences: list[list[int]]) -> None:
    """Each of `sequences`, in one packed row, gives the logits that it has alone."""
    alone = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float64)
    packed = PackedModel(load_causal_lm(directory, dtype=torch.float64), capacity=100)
    segments, slots = [], iter(range(100))
    for tokens in sequences:
        taken = [next(slots) for _ in tokens]
        segments.append(Segment(tokens, taken, range(-1, len(tokens) - 1), wanted=range(len(tokens))))
    logits = packed.forward(segments).logits
    expected = torch.cat([alone(torch.tensor([tokens])).logits[0] for tokens in sequences])
    torch.testing.assert_close(logits, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(("scaling", "context"), [("longrope", ORIGINAL), ("dynamic", EXTENDED)])
def test_positions_that_the_longest_sequence_of_a_pass_decides_end_where_they_were_trained(
    scaled: Make, scaling: str, context: int
) -> None:
    directory = scaled("llama", BY_THE_LONGEST[scaling])
    assert context_of(load_config(directory)) == context
    short = list(range(5, 12))
    assert_as_alone(directory, [short, list(range(20, 20 + context))])
    with pytest.raises(AssertionError, match="not close"):  # so the bound is needed
        assert_as_alone(directory, [short, list(range(20, 20 + context + 2))])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tail_has_the_positions_of_its_target(scaled: Make, tmp_path: Path, family: str) -> None:
    directory = scaled(family, LONGROPE)
    write_tail(directory, 2, tmp_path / "tail")
    tail = load_tail(tmp_path / "tail", 1, "cpu", "float32")
    assert context_of(tail.config) == ORIGINAL


def test_a_context_is_read_from_an_older_configuration(tmp_path: Path) -> None:
    """As Phi 3's is published."""
    half = 32 // 2
    longrope = {"type": "longrope", "short_factor": [1.0] * half, "long_factor": [8.0] * half}
    described = {
        "model_type": "phi3",
        "architectures": ["Phi3ForCausalLM"],
        "hidden_size": 128,
        "num_attention_heads": 4,
        "max_position_embeddings": 131_072,
        "original_max_position_embeddings": 4096,
        "rope_theta": 10_000.0,
    }
    (tmp_path / "config.json").write_text(json.dumps(described | {"rope_scaling": longrope}))
    assert context_of(load_config(tmp_path)) == 4096
    (tmp_path / "config.json").write_text(json.dumps(described | {"rope_scaling": None}))
    assert context_of(load_config(tmp_path)) == 131_072


YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}


@pytest.mark.parametrize(
    ("stated", "scaling", "context"),
    [
        pytest.param(32_768, YARN, 131_072, id="as Qwen2.5's card has it written"),
        pytest.param(40_960, {**YARN, "rope_type": YARN["type"]}, 131_072, id="as Qwen3's does"),
        pytest.param(131_072, YARN, 131_072, id="the result is stated, as by gpt-oss"),
        pytest.param(163_840, {**YARN, "factor": 40, "original_max_position_embeddings": 4096}, 163_840, id="DeepSeek"),
        pytest.param(131_072, {**YARN, "factor": None}, 131_072, id="no factor"),
        pytest.param(32_768, {**YARN, "factor": math.inf}, 32_768, id="a factor that is no number"),
        pytest.param(32_768, {**YARN, "type": "linear"}, 32_768, id="another way"),
        pytest.param(32_768, None, 32_768, id="not extended"),
    ],
)
def test_yarn_extends_what_a_checkpoint_was_trained_for(
    tmp_path: Path, stated: int, scaling: dict[str, Any] | None, context: int
) -> None:
    described = {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 128,
        "num_attention_heads": 4,
        "max_position_embeddings": stated,
        "rope_theta": 1_000_000.0,
        "rope_scaling": scaling,
    }
    (tmp_path / "config.json").write_text(json.dumps(described))
    assert context_of(load_config(tmp_path)) == context


def test_a_checkpoint_that_states_fewer_positions_than_yarn_gives_it_runs_at_all_of_them(scaled: Make) -> None:
    directory = scaled("qwen2", BY_EACH["yarn"])
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "max_position_embeddings": ORIGINAL}))
    assert context_of(load_config(directory)) == EXTENDED
    assert_as_alone(directory, [list(range(5, 12)), list(range(20, 20 + EXTENDED))])


def test_sections_of_positions_agree_where_there_is_text_alone(scaled: Make) -> None:
    """The language model of Qwen2-VL, saved as a checkpoint of its own."""
    directory = scaled("qwen2", {"rope_type": "default", "mrope_section": [1, 1, 2]})
    model = load_causal_lm(directory, dtype=torch.float64)
    config = Qwen2VLTextConfig(**{**model.config.to_dict(), "model_type": "qwen2_vl_text"})
    of_images = Qwen2VLTextModel(config).double().eval()
    of_images.load_state_dict(model.model.state_dict())
    tokens = list(range(20, 20 + 2 * ORIGINAL))
    expected = model.lm_head(of_images(torch.tensor([tokens])).last_hidden_state[0])
    segment = Segment(tokens, range(len(tokens)), range(-1, len(tokens) - 1), wanted=range(len(tokens)))
    found = PackedModel(model, capacity=100).forward([segment]).logits
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("scaling", BY_EACH)
def test_a_row_of_several_sequences_gives_each_sequence_what_it_gets_alone(scaled: Make, scaling: str) -> None:
    """A long sequence beside a short one, which would show scaling by the longest."""
    directory = scaled("llama", BY_EACH[scaling])
    assert_as_alone(directory, [list(range(5, 12)), list(range(20, 20 + 3 * ORIGINAL))])


@pytest.mark.parametrize(
    ("config", "width"),
    [
        (LlamaConfig(hidden_size=64, intermediate_size=96), 96),
        (GPT2Config(n_embd=48, n_inner=96), 96),
        (GPT2Config(n_embd=48), 4 * 48),
        (GPTNeoConfig(hidden_size=48), 4 * 48),
    ],
)
def test_a_feed_forward_width_is_four_times_the_hidden_size_where_it_is_null(
    config: PreTrainedConfig, width: int
) -> None:
    assert feed_forward_width(config) == width


def test_a_feed_forward_width_of_another_name_is_not_guessed() -> None:
    with pytest.raises(CheckpointError, match="model type 'opt' gives its feed-forward parts no width as n_inner or"):
        feed_forward_width(OPTConfig(hidden_size=48, ffn_dim=96))
