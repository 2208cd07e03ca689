"""Frequencies of rotary positions are those that transformers computes, and broken settings are refused."""

import copy

import pytest
import torch
from transformers import CONFIG_MAPPING, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from common.models.rope import RopeScaling, inverse_frequencies, read_rope

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 3.0},
        LLAMA3,
        YARN,
        YARN | {"beta_fast": 8, "beta_slow": 2, "truncate": False},
        YARN | {"mscale": 0.7, "mscale_all_dim": 1.3},
        YARN | {"attention_factor": 1.25},
        YARN | {"factor": 0.5},
    ],
    ids=str,
)
def test_frequencies_and_magnitude_are_those_of_transformers(scaling):
    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=2,
        max_position_embeddings=256,
        rope_parameters=scaling | {"rope_theta": 5e5},
    )
    expected, magnitude = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu")
    base, read = read_rope({"rope_theta": 5e5, "rope_scaling": scaling})
    torch.testing.assert_close(inverse_frequencies(base, 32, read), expected, rtol=1e-6, atol=0)
    assert read.magnitude == pytest.approx(magnitude)
    assert not torch.allclose(inverse_frequencies(base, 32), expected)


@pytest.mark.parametrize(
    ("config", "base"),
    [
        ({}, 1e4),
        ({"rope_theta": 5e5, "rope_scaling": None}, 5e5),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 1e6),
        ({"rope_theta": 2e4, "rope_scaling": {"type": "default"}}, 2e4),
        ({"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, 1e6),
        ({"rope_theta": 2e4, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, 2e4),
        ({"rope_theta": 2e4, "rope_scaling": {"type": "dynamic", "alpha": 1.0, "factor": 1.0}}, 2e4),
    ],
)
def test_plain_positions_are_read_from_every_place(config, base):
    assert read_rope(config) == (base, None)


def test_older_and_newer_configurations_say_the_same():
    newer = read_rope({"rope_parameters": LLAMA3 | {"rope_theta": 5e5}})
    older = read_rope({"rope_theta": 5e5, "rope_scaling": {**LLAMA3, "type": "llama3", "rope_type": None}})
    assert newer == older == (5e5, RopeScaling("llama3", 8.0, 64, 1.0, 4.0))


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral"])
@pytest.mark.parametrize(
    "said",
    [
        {},
        {"rope_theta": 5e5},
        {"rope_theta": 2e4, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        {"rope_theta": 2e4, "rope_parameters": {"rope_type": "linear", "factor": 2.0}},
        {"rope_theta": 2e4, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_theta": 2e4, "rope_scaling": {"type": "dynamic", "rope_type": "linear", "factor": 2.0}},
        {"rope_theta": 2e4, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
        {"rope_theta": 2e4, "rope_scaling": {}, "rope_parameters": LLAMA3 | {"rope_theta": 5e5}},
        {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": LLAMA3 | {"rope_theta": 5e5}},
        {
            "rope_theta": 2e4,
            "rope_scaling": LLAMA3,
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5},
        },
        {"rope_theta": 5e5, "rope_scaling": LLAMA3, "original_max_position_embeddings": 128},
        {"rope_parameters": LLAMA3 | {"rope_theta": 5e5}, "original_max_position_embeddings": 128},
        {"rope_parameters": YARN | {"rope_theta": 5e5}, "original_max_position_embeddings": 32},
        {"rope_theta": 5e5, "rope_scaling": {"type": "yarn", "factor": 4.0}},
        {"rope_theta": 2e4, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.0}},
    ],
    ids=str,
)
def test_every_configuration_is_read_as_transformers_reads_it(said, family):
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "head_dim": 32, "max_position_embeddings": 256}
    base, scaling = read_rope(sizes | said)
    # The four families' embeddings are Llama's.
    theirs = LlamaRotaryEmbedding(CONFIG_MAPPING[family].from_dict(copy.deepcopy(sizes | said)))
    torch.testing.assert_close(inverse_frequencies(base, 32, scaling), theirs.inv_freq, rtol=1e-6, atol=0)
    assert (scaling.magnitude if scaling else 1.0) == pytest.approx(theirs.attention_scaling)


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "longrope", "factor": 2.0},
        {"rope_type": "linear"},
        {"rope_type": "linear", "factor": "two"},
        {"rope_type": "linear", "factor": 0.0},
        {"rope_type": "linear", "factor": float("inf")},
        {"rope_type": "yarn", "factor": 4.0},
        LLAMA3 | {"low_freq_factor": None},
        {"rope_type": "default", "partial_rotary_factor": 0.5},
        {"type": "dynamic", "alpha": 1000.0, "factor": 1.0},
        {"full_attention": {"rope_type": "default", "rope_theta": 5e5}},
    ],
    ids=str,
)
def test_what_is_broken_or_scaled_in_another_way_is_refused(scaling):
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_rope({"rope_scaling": scaling})


@pytest.mark.parametrize("place", [None, "rope_scaling", "rope_parameters"])
@pytest.mark.parametrize(("factor", "is_read"), [(0.5, False), (1.0, True), (1, True), (None, True)])
def test_heads_of_which_a_part_is_turned_are_refused_wherever_that_is_said(place, factor, is_read):
    said = {"partial_rotary_factor": factor}
    config = {"rope_theta": 5e5} | (said if place is None else {place: {"rope_type": "default"} | said})
    if is_read:
        assert read_rope(config) == (5e5, None)
        return
    with pytest.raises(ValueError, match="only a part of each head"):
        read_rope(config)
