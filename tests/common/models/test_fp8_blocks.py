"""FP8 weights whose last blocks are not whole are refused where transformers would expand them, and only there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from transformers.quantizers.quantizer_finegrained_fp8 import FineGrainedFP8HfQuantizer

from common.models.checkpoint import load_causal_lm
from common.models.errors import CheckpointError
from common.models.fp8_blocks import check_whole_blocks
from tests.quantised import make_fp8

Checkpoint = Callable[..., Path]

WEIGHT, SCALES = "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight_scale_inv"
EXPERTS = "model.layers.0.mlp.experts.gate_up_proj"


@pytest.fixture
def with_fp8_kernels(monkeypatch):
    # Where there is no such device, this is what has transformers expand the weights unasked.
    monkeypatch.setattr(FineGrainedFP8HfQuantizer, "validate_environment", lambda *_, **__: None)


def fp8(*shape: int) -> torch.Tensor:
    return torch.zeros(shape).to(torch.float8_e4m3fn)


def config(**settings: object) -> dict[str, object]:
    return {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], **settings}}


@pytest.mark.parametrize("hidden", [192, 288])
def test_weights_whose_last_blocks_are_not_whole_are_refused_before_they_are_loaded(
    hidden, checkpoint: Checkpoint, tmp_path, monkeypatch
):
    stored = make_fp8(tmp_path / "stored", checkpoint("llama", hidden=hidden))
    monkeypatch.delattr(AutoModelForCausalLM, "from_pretrained")
    says = r"in blocks of 128 by 128, into which model\.layers\.\d\.[\w.]+_proj\.weight \(\d+ by \d+\) does not"
    with pytest.raises(CheckpointError, match=says) as caught:
        load_causal_lm(stored)
    assert str(caught.value).endswith("or serve it on a GPU that computes in FP8")


def test_weights_of_whole_blocks_are_loaded_as_what_they_were_made_from(checkpoint: Checkpoint, tmp_path):
    plain = checkpoint("llama", layers=1, hidden=384)
    stored = load_causal_lm(make_fp8(tmp_path / "stored", plain)).state_dict()
    for name, weight in load_causal_lm(plain).state_dict().items():
        assert (stored[name] - weight).abs().max() < 0.05 * weight.abs().max(), name


def test_modules_that_are_not_quantised_may_be_of_any_size(checkpoint: Checkpoint, tmp_path):
    plain = checkpoint("llama", layers=1, hidden=192)
    names = load_file(plain / "model.safetensors")
    left_out = tuple(name.removesuffix(".weight") for name in names if name.endswith("_proj.weight"))
    load_causal_lm(make_fp8(tmp_path / "stored", plain, left_out=left_out))


@pytest.mark.usefixtures("with_fp8_kernels")
def test_a_device_that_computes_in_fp8_takes_them_unless_they_are_to_be_expanded(tmp_path):
    save_file({WEIGHT: fp8(192, 64), SCALES: torch.ones(2, 1)}, tmp_path / "model.safetensors")
    check_whole_blocks(tmp_path, config(), "cpu")
    with pytest.raises(CheckpointError, match=r"up_proj\.weight \(192 by 64\) does not divide"):
        check_whole_blocks(tmp_path, config(), "cpu", expanded=True)


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ({WEIGHT: fp8(64, 192), SCALES: torch.ones(1, 2)}, r"up_proj\.weight \(64 by 192\)"),
        ({WEIGHT: fp8(192, 64), WEIGHT.replace(".weight", ".scale"): torch.ones(2, 1)}, r"up_proj\.weight \(192"),
        ({WEIGHT: fp8(192, 64), WEIGHT.replace("weight", "qscale_weight"): torch.ones(2, 1)}, r"up_proj\.weight"),
        ({EXPERTS: fp8(3, 64, 192), f"{EXPERTS}_scale_inv": torch.ones(3, 1, 2)}, r"gate_up_proj \(64 by 192\)"),
    ],
    ids=["columns", "scale", "qscale", "experts"],
)
def test_scales_are_found_by_every_name_that_they_have(tensors, says, tmp_path):
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=says):
        check_whole_blocks(tmp_path, config(), "cpu")


def test_weights_and_their_scales_may_lie_in_different_files(tmp_path):
    save_file({WEIGHT: fp8(192, 64)}, tmp_path / "a.safetensors")
    save_file({SCALES: torch.ones(2, 1)}, tmp_path / "b.safetensors")
    index = {"weight_map": {WEIGHT: "a.safetensors", SCALES: "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="does not divide"):
        check_whole_blocks(tmp_path, config(), "cpu")


@pytest.mark.parametrize(
    ("tensors", "settings"),
    [
        ({WEIGHT: fp8(192, 64), SCALES: torch.ones(2, 1)}, {"quant_method": "compressed-tensors"}),
        ({WEIGHT: fp8(192, 64), SCALES: torch.ones(2, 1)}, {"weight_block_size": [96, 128]}),
        ({WEIGHT: fp8(192, 64), SCALES: torch.tensor(1.0)}, {"weight_block_size": None}),
        ({WEIGHT: fp8(192, 64), SCALES: torch.tensor(1.0)}, {}),
        ({WEIGHT: fp8(192, 64), SCALES: torch.ones(192, 1)}, {}),
        ({WEIGHT: fp8(192, 64)}, {}),
        ({WEIGHT: torch.zeros(192, 16, dtype=torch.int8), SCALES: torch.ones(2, 1)}, {}),
        ({WEIGHT: fp8(256, 64), SCALES: torch.ones(2, 1)}, {}),
    ],
    ids=["method", "sides", "no-blocks", "one-scale", "by-row", "no-scales", "fp4", "whole"],
)
def test_what_transformers_expands_correctly_is_not_refused(tensors, settings, tmp_path):
    save_file(tensors, tmp_path / "model.safetensors")
    check_whole_blocks(tmp_path, config(**settings), "cpu")


def test_a_file_that_cannot_be_read_is_left_to_loading(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"no header")
    check_whole_blocks(tmp_path, config(), "cpu")
