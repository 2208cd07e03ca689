"""Quantised checkpoints run in passes as transformers loads them; a missing library is one sentence."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from common.models.checkpoint import load_causal_lm
from common.models.errors import CheckpointError
from common.models.fingerprint import fingerprint
from common.models.packed import PackedModel
from common.models.quantised import loading, method_of, plain_tensors, settle
from common.models.segment import Segment
from netem.experiments.family_checkpoints import FAMILIES as FAMILIES_BY_NAME
from netem.experiments.family_checkpoints import make_family_checkpoint
from tests.families import FAMILIES
from tests.quantised import make_fp8, make_int4

Checkpoint = Callable[..., Path]

TOKENS = [11, 45, 7, 201, 99, 45, 7, 3, 8, 120]


def logits_of_a_pass(model: torch.nn.Module) -> torch.Tensor:
    rows = range(len(TOKENS))
    chain = Segment(TOKENS, slots=rows, parents=range(-1, len(TOKENS) - 1), wanted=rows)
    return PackedModel(model, 64).forward([chain]).logits


class StoredExperts(nn.Module):
    """Experts as a device with FP8 keeps them: no linear layers, but their numbers with a scale for each matrix."""

    def __init__(self, plain: nn.Module):
        super().__init__()
        self.act_fn = plain.act_fn
        for name, weight in plain.named_parameters():
            scales = weight.abs().amax((-2, -1), keepdim=True) / 448
            self.register_parameter(name, nn.Parameter((weight / scales).to(torch.float8_e4m3fn), requires_grad=False))
            self.register_parameter(f"{name}_scale_inv", nn.Parameter(scales, requires_grad=False))


@pytest.fixture
def with_stored_experts(tmp_path) -> nn.Module:
    model = load_causal_lm(make_family_checkpoint(tmp_path / "experts", FAMILIES_BY_NAME["qwen3-moe"]))
    for layer in model.model.layers:
        layer.mlp.experts = StoredExperts(layer.mlp.experts)
    return model


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("make", [make_fp8, make_int4])
def test_a_stored_checkpoint_computes_what_transformers_makes_of_it(family, make, checkpoint: Checkpoint, tmp_path):
    stored = make(tmp_path / "stored", checkpoint(family))
    model = load_causal_lm(stored, dtype="float64")
    with torch.inference_mode():
        known = model(torch.tensor([TOKENS]), use_cache=False).logits[0]
    assert known.dtype == torch.float64
    assert torch.allclose(logits_of_a_pass(model), known, atol=1e-10)
    assert not torch.allclose(known, load_causal_lm(checkpoint(family), dtype="float64")(torch.tensor([TOKENS])).logits)


@pytest.mark.parametrize("bits", ["int8", "int4"])
def test_a_plain_checkpoint_can_be_quantised_while_it_is_loaded(bits, checkpoint: Checkpoint):
    wide = checkpoint("llama", hidden=192)
    plain, model = load_causal_lm(wide, dtype="bfloat16"), load_causal_lm(wide, dtype="bfloat16", quantise=bits)
    layer = model.model.layers[0].mlp.down_proj
    assert layer.weight.numel() * layer.weight.element_size() <= plain.model.layers[0].mlp.down_proj.weight.numel()
    assert logits_of_a_pass(model).isfinite().all()
    weights = plain_tensors(model)["model.layers.0.mlp.down_proj.weight"].float()
    wanted = plain.model.layers[0].mlp.down_proj.weight.float()
    assert (weights - wanted).abs().max() < wanted.abs().max() * {"int8": 0.01, "int4": 0.2}[bits]


def test_a_quantised_layer_is_told_with_its_bias_left_apart(checkpoint: Checkpoint):
    plain = load_causal_lm(checkpoint("qwen2"), dtype="bfloat16")
    told = plain_tensors(load_causal_lm(checkpoint("qwen2"), dtype="bfloat16", quantise="int8"))
    assert told.keys() == plain.state_dict().keys()
    for name, wanted in plain.state_dict().items():
        assert told[name].dtype == torch.bfloat16
        assert (told[name] - wanted).abs().max() <= wanted.abs().max() * 0.02, name


def test_the_scales_of_experts_stay_as_exact_as_they_are_stored(with_stored_experts):
    stored = {name: weight.clone() for name, weight in with_stored_experts.named_parameters()}
    settle(with_stored_experts, torch.bfloat16)
    for name, weight in with_stored_experts.named_parameters():
        if ".experts." in name:
            assert weight.dtype == stored[name].dtype, name
            assert torch.equal(weight.float(), stored[name].float())
        else:
            assert weight.dtype == torch.bfloat16, name


def test_experts_that_are_stored_in_few_bits_are_not_told_as_plain_numbers(with_stored_experts):
    with pytest.raises(CheckpointError, match=r"weights model\.layers\.0\.mlp\.experts\.gate_up_proj cannot be turned"):
        plain_tensors(with_stored_experts)


@pytest.mark.parametrize("method", ["fp8", "mxfp4", "compressed-tensors"])
def test_methods_that_can_unpack_weights_are_asked_to(method):
    assert loading(method, "", torch.device("cpu"), expanded=True)["quantization_config"].dequantize


def test_the_fingerprint_tells_how_weights_are_stored(checkpoint: Checkpoint, tmp_path):
    plain = checkpoint("llama")
    fp8, int4 = make_fp8(tmp_path / "fp8", plain), make_int4(tmp_path / "int4", plain)
    assert len(set(map(fingerprint, (plain, fp8, int4)))) == 3
    assert fingerprint(make_fp8(tmp_path / "again", plain)) == fingerprint(fp8)


@pytest.mark.parametrize(
    ("settings", "method"),
    [(None, ""), ({}, ""), ({"quant_method": "fp8"}, "fp8"), ({"load_in_8bit": True}, "bitsandbytes")],
)
def test_the_method_is_known_by_the_configuration(settings, method):
    assert method_of({"quantization_config": settings}) == method
    assert method_of({}) == ""


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, r"is quantised \(gptq\) and cannot be loaded: .*GPTQ"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, r"is quantised \(awq\) and cannot be loaded: .*AWQ"),
        ({"quant_method": "fp8", "weight_block_size": [3]}, r"is quantised \(fp8\) and cannot be loaded: .*block"),
    ],
)
def test_what_cannot_be_loaded_here_is_one_sentence(settings, says, checkpoint: Checkpoint, tmp_path):
    copy = Path(shutil.copytree(checkpoint("llama"), tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))
    with pytest.raises(CheckpointError, match=says) as caught:
        load_causal_lm(copy)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_asked_is_misuse(checkpoint: Checkpoint, tmp_path):
    with pytest.raises(CheckpointError, match=r"cannot be quantised to 'int3'; choose from: int8, int4$"):
        load_causal_lm(checkpoint("llama"), quantise="int3")
    with pytest.raises(CheckpointError, match=r"is quantised already \(fp8\); load it as it is"):
        load_causal_lm(make_fp8(tmp_path / "fp8", checkpoint("llama")), quantise="int8")


def test_loading_is_silent(checkpoint: Checkpoint, tmp_path, capfd: pytest.CaptureFixture[str]):
    for make in (make_fp8, make_int4):
        logits_of_a_pass(load_causal_lm(make(tmp_path / make.__name__, checkpoint("llama")), dtype="bfloat16"))
    logits_of_a_pass(load_causal_lm(checkpoint("llama"), dtype="bfloat16", quantise="int8"))
    assert capfd.readouterr() == ("", "")
