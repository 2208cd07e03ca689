"""The decoder in plain torch computes what transformers computes, to the last bit, or leaves a checkpoint to it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from common.draft_models.tail import load_tail, write_tail
from common.models import decoder
from common.models.checkpoint import load_causal_lm
from common.models.decoder import CausalLm, load_decoder
from common.models.errors import CheckpointError
from common.models.packed import PackedModel
from common.models.segment import Segment
from common.weight_only.files import read_mapped
from tests.families import FAMILIES, make_checkpoint

TOKENS = [11, 45, 7, 201, 99, 45, 7, 3, 8, 120, 11, 45, 7, 201, 99, 45]
ROPES: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8,
    },
}
Change = Callable[[dict[str, Any]], None]


def changed(directory: Path, change: Change) -> Path:
    path = directory / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))
    return directory


def run(model: CausalLm) -> tuple[torch.Tensor, torch.Tensor]:
    """Two passes: a prompt, then a small tree on it."""
    packed, length = PackedModel(model, 64), len(TOKENS)
    slots = list(range(length))
    packed.forward([Segment(TOKENS, slots, range(-1, length - 1))])
    out = packed.forward([Segment([5, 9, 17], [20, 21, 22], [-1, 0, 0], slots, wanted=[0, 1, 2])])
    return out.logits, out.hidden


def assert_same(ours: CausalLm | None, theirs: CausalLm) -> None:
    assert ours is not None
    for mine, expected in zip(run(ours), run(theirs), strict=True):
        assert mine.dtype == expected.dtype
        assert torch.equal(mine, expected)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_every_family_is_computed_as_transformers_does(tmp_path: Path, family: str, dtype: str) -> None:
    directory = make_checkpoint(tmp_path, family, tied=family == "llama", sharded=family == "mistral")
    assert_same(load_decoder(directory, "cpu", dtype), load_causal_lm(directory, "cpu", dtype))


@pytest.mark.parametrize("rope", ROPES)
def test_positions_are_scaled_as_transformers_does(tmp_path: Path, rope: str) -> None:
    scaling = {"rope_parameters": {"rope_theta": 10_000.0, **ROPES[rope]}}
    directory = changed(make_checkpoint(tmp_path, "llama"), lambda config: config.update(scaling))
    assert_same(load_decoder(directory, "cpu", "float32"), load_causal_lm(directory))


@pytest.mark.parametrize("rope", ROPES)
def test_older_configurations_say_the_same(tmp_path: Path, rope: str) -> None:
    def age(config: dict[str, Any]) -> None:
        del config["rope_parameters"]
        scaling = {**ROPES[rope], "type": ROPES[rope]["rope_type"]}
        config.update(rope_theta=5_000.0, rope_scaling=None if rope == "default" else scaling)

    directory = changed(make_checkpoint(tmp_path, "llama"), age)
    assert_same(load_decoder(directory, "cpu", "float32"), load_causal_lm(directory))


@pytest.mark.parametrize(("family", "window"), [("mistral", {}), ("qwen2", {"use_sliding_window": True})])
def test_windows_slide_as_in_transformers(tmp_path: Path, family: str, window: dict[str, Any]) -> None:
    def slide(config: dict[str, Any]) -> None:
        config.update(window, sliding_window=4, max_window_layers=1)
        config.pop("layer_types", None)

    whole = run(load_causal_lm(make_checkpoint(tmp_path / "whole", family)))[0]
    directory = changed(make_checkpoint(tmp_path / "sliding", family), slide)
    decoder = load_decoder(directory, "cpu", "float32")
    assert_same(decoder, load_causal_lm(directory))
    assert decoder is not None
    assert not torch.equal(run(decoder)[0], whole)


@pytest.mark.parametrize("flags", [{"attention_bias": True}, {"mlp_bias": True}])
def test_biases_are_added_where_a_configuration_says_so(tmp_path: Path, flags: dict[str, Any]) -> None:
    directory = make_checkpoint(tmp_path, "llama")
    tensors = load_file(directory / "model.safetensors")
    ends = ("_proj.weight",)
    kinds = ("self_attn",) if "attention_bias" in flags else ("mlp",)
    for name, weight in list(tensors.items()):
        if name.endswith(ends) and any(kind in name for kind in kinds):
            tensors[name.replace("weight", "bias")] = torch.randn(len(weight))
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    changed(directory, lambda config: config.update(flags))
    assert_same(load_decoder(directory, "cpu", "float32"), load_causal_lm(directory))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_the_last_layers_alone_are_the_tail(tmp_path: Path, family: str, layers: int) -> None:
    write_tail(make_checkpoint(tmp_path / "target", family, layers=4), 3, tmp_path / "tail")
    theirs = load_tail(tmp_path / "tail", layers, "cpu", "float32")
    ours = load_decoder(tmp_path / "tail", "cpu", "float32", layers)
    assert ours is not None
    assert ours.config.num_hidden_layers == layers
    assert_same(ours, theirs)


def pop(name: str) -> Change:
    return lambda config: config.pop(name)


def put(**values: Any) -> Change:
    return lambda config: config.update(values)


@pytest.mark.parametrize(
    "change",
    {
        "another family": put(model_type="gpt2"),
        "few bits": put(quantization_config={"quant_method": "fp8"}),
        "another activation": put(hidden_act="gelu"),
        "positions that it does not know": put(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}),
        "part of each head turned": put(
            rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
        ),
        "layers that differ": put(per_layer_config={"1": {"sliding_window": 6}}),
        "no positions": pop("rope_parameters"),
        "no sizes": pop("hidden_size"),
        "sizes that are none": put(num_key_value_heads="2"),
        "another size": put(hidden_size=100),
        "more layers than there are": put(num_hidden_layers=9),
        "a flag that is none": put(attention_bias="no"),
        "true where a number belongs": put(num_hidden_layers=True),
    }.items(),
    ids=lambda case: case[0],
)
def test_what_it_does_not_understand_is_left_to_transformers(tmp_path: Path, change: tuple[str, Change]) -> None:
    directory = changed(make_checkpoint(tmp_path, "llama"), change[1])
    assert load_decoder(directory, "cpu", "float32") is None


def test_more_layers_than_a_tail_has_are_left_to_transformers(tmp_path: Path) -> None:
    directory = make_checkpoint(tmp_path, "llama", layers=2)
    assert load_decoder(directory, "cpu", "float32", 3) is None


def test_damaged_weights_are_left_to_transformers(tmp_path: Path) -> None:
    directory = make_checkpoint(tmp_path, "llama")
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert load_decoder(directory, "cpu", "float32") is None
    weights.unlink()
    assert load_decoder(directory, "cpu", "float32") is None


def test_a_tied_head_that_the_weights_hold_as_well_is_left_to_transformers(tmp_path: Path) -> None:
    directory = make_checkpoint(tmp_path, "llama", tied=True)
    tensors = load_file(directory / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] * 2
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    assert load_decoder(directory, "cpu", "float32") is None


def test_only_what_is_converted_is_copied_from_the_mapped_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = make_checkpoint(tmp_path, "llama")
    mapped: dict[str, torch.Tensor] = {}

    def read(file: Path) -> dict[str, torch.Tensor]:
        mapped.update(read_mapped(file))
        return mapped

    monkeypatch.setattr(decoder, "read_mapped", read)
    for dtype, is_mapped in (("float64", True), ("float32", False)):
        loaded = load_decoder(directory, "cpu", dtype)
        assert loaded is not None
        weight = loaded.get_parameter("model.embed_tokens.weight")
        assert (weight.data_ptr() == mapped["model.embed_tokens.weight"].data_ptr()) is is_mapped


def test_an_unknown_dtype_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="the dtype 'int3' is unknown"):
        load_decoder(make_checkpoint(tmp_path, "llama"), "cpu", "int3")


def test_it_needs_no_transformers(tmp_path: Path) -> None:
    directory = make_checkpoint(tmp_path, "llama")
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from common.models.decoder import load_decoder\n"
        "from common.models.packed import PackedModel\n"
        "PackedModel(load_decoder(Path(sys.argv[1]), 'cpu', 'float32'), 8)\n"
        "print([name for name in ('transformers', 'torch._dynamo', 'sympy') if name in sys.modules])\n"
    )
    told = subprocess.run([sys.executable, "-c", code, str(directory)], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
