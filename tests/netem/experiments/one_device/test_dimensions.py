import pytest

from common.draft_models.layers import DecoderLayer
from common.draft_models.moa import MoaDraft, make_lsa
from netem.experiments.one_device.dimensions import (
    LLAMA_1B,
    LLAMA_8B,
    LLAMA_70B,
    QWEN_7B,
    QWEN_600M,
    TargetDimensions,
    client_bytes,
    count,
    default_config,
    eagle,
    export_share,
    gpu_hours,
    moa,
    published_config,
    state_bytes,
    training_flops,
)
from tests.families import make_checkpoint

MILLION = 10**6


@pytest.mark.parametrize(
    ("target", "billions"),
    [(LLAMA_1B, 1.236), (QWEN_600M, 0.596), (LLAMA_8B, 8.030), (QWEN_7B, 7.616), (LLAMA_70B, 70.554)],
)
def test_targets_have_the_parameters_that_their_makers_state(target, billions):
    assert target.parameters / 1e9 == pytest.approx(billions, abs=0.0005)


@pytest.mark.parametrize(("family", "tied"), [("llama", True), ("llama", False), ("qwen2", False), ("qwen3", True)])
def test_a_target_is_counted_as_transformers_builds_it(tmp_path, family, tied):
    from common.models.checkpoint import load_causal_lm

    model = load_causal_lm(make_checkpoint(tmp_path, family, tied=tied))
    stated = TargetDimensions("tiny", 48, 3, 6, 2, 8, 96, 300, family == "qwen2", tied, head_norms=family == "qwen3")
    assert stated.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_the_published_draft_has_the_published_parts():
    config = published_config(LLAMA_8B, depths=(0,))
    assert round(count(lambda: DecoderLayer(config.sa)) / MILLION) == 113
    assert round(count(lambda: DecoderLayer(config.ca)) / MILLION) == 113
    assert round(count(lambda: make_lsa(config)) / MILLION) == 29
    assert round(count(lambda: MoaDraft(config, 0).project) / MILLION) == 8
    assert round(moa(LLAMA_8B, config, 0).trainable / MILLION) == 264
    assert round(eagle(LLAMA_8B).trainable / MILLION) == 252
    assert round(LLAMA_8B.layer_parameters / MILLION) == 218
    assert round(LLAMA_8B.embedding_and_head / 1e9, 2) == 1.05


def test_the_default_is_as_large_as_published():
    ours = moa(LLAMA_8B, default_config(LLAMA_8B, (0,)), 0)
    assert ours.trainable == pytest.approx(264 * MILLION, rel=0.05)
    assert ours.state_numbers == 2048


def test_the_default_leaves_room_for_layers_where_keys_are_as_wide_as_hidden_states():
    config = default_config(QWEN_600M, (0,))
    assert config.state_width == 2 * QWEN_600M.hidden
    assert QWEN_600M.hidden / 2 <= config.sa.intermediate < 0.55 * QWEN_600M.hidden


def test_state_is_as_large_as_published():
    assert state_bytes(eagle(LLAMA_8B), "float16") == 8192
    for depth in (0, 1, 3):
        draft = moa(LLAMA_8B, published_config(LLAMA_8B, (depth,)), depth)
        assert state_bytes(draft, "float16") == 4096 + 4096 * depth
        # A number in a byte, and a scale of two for every 32 of them.
        assert state_bytes(draft, "int8") == (4096 + 4096 * depth) // 2 * 34 // 32


def test_state_does_not_grow_with_the_targets_layers():
    assert LLAMA_70B.layers > LLAMA_8B.layers
    small, large = (moa(target, published_config(target, (0,)), 0) for target in (LLAMA_8B, LLAMA_70B))
    assert small.state_numbers == large.state_numbers == 2048


def test_a_deeper_client_holds_and_trains_more():
    shallow, deep = (moa(LLAMA_8B, published_config(LLAMA_8B, (depth,)), depth) for depth in (0, 1))
    layer = 2 * LLAMA_8B.layer_parameters
    caches = 4096 * 2 * 4 * LLAMA_8B.key_width
    assert client_bytes(LLAMA_8B, deep, 4096) - client_bytes(LLAMA_8B, shallow, 4096) == layer + caches
    assert training_flops(LLAMA_8B, deep) - training_flops(LLAMA_8B, shallow) == 2 * layer
    assert training_flops(LLAMA_8B, eagle(LLAMA_8B)) < training_flops(LLAMA_8B, shallow)


def test_one_bundle_of_several_depths_trains_all_and_runs_one():
    config = published_config(LLAMA_8B, (0, 1, 3))
    bundle = moa(LLAMA_8B, config, 1)
    alone = moa(LLAMA_8B, published_config(LLAMA_8B, (1,)), 1)
    assert bundle.state_numbers == alone.state_numbers
    extra = training_flops(LLAMA_8B, bundle) - training_flops(LLAMA_8B, alone)
    assert extra == 2 * 6 * alone.client + 4 * (3 * LLAMA_8B.layer_parameters + 2 * LLAMA_8B.head_parameters)
    assert bundle.trainable == alone.server + 3 * alone.client
    assert client_bytes(LLAMA_8B, bundle, 4096) == client_bytes(LLAMA_8B, alone, 4096)


def test_the_server_pays_for_its_half_by_layers():
    draft = moa(LLAMA_8B, published_config(LLAMA_8B, (0,)), 0)
    assert export_share(LLAMA_8B, draft) == pytest.approx(29.36 * 32 / 7505, rel=0.001)
    assert export_share(LLAMA_8B, moa(LLAMA_8B, default_config(LLAMA_8B, (0,)), 0)) < 0.005
    assert export_share(LLAMA_8B, eagle(LLAMA_8B)) == 0


def test_gpu_hours():
    assert gpu_hours(3.6e18, peak=1e15, utilisation=0.5) == pytest.approx(2)
