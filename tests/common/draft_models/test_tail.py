"""A target's tail computes what the target's last layers compute, in every family, whole, sharded or quantised."""

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers.quantizers.quantizer_finegrained_fp8 import FineGrainedFP8HfQuantizer

from common.draft_models.tail import load_tail, write_tail
from common.models.checkpoint import load_causal_lm
from common.models.decoder import load_decoder
from common.models.errors import CheckpointError
from netem.experiments.family_checkpoints import FAMILIES as FAMILIES_BY_NAME
from netem.experiments.family_checkpoints import make_family_checkpoint
from tests.families import FAMILIES, make_checkpoint
from tests.other_families import ERNIE_MOE, GEMMA_4
from tests.quantised import make_fp8, make_int4

EVERY_OTHER = replace(ERNIE_MOE, options={**ERNIE_MOE.options, "moe_layer_interval": 2})
TOKENS = torch.tensor([[11, 45, 7, 201, 99, 45, 7, 3, 8, 120, 11, 45, 7, 201, 99, 45, 7, 3, 8, 120]])


@pytest.fixture(scope="module", params=FAMILIES)
def target(request, tmp_path_factory):
    where = tmp_path_factory.mktemp(request.param)
    return make_checkpoint(
        where, request.param, layers=4, tied=request.param == "llama", sharded=request.param != "llama"
    )


@torch.inference_mode()
def furthest_logits(target: Path, tail: Path, layers: int) -> float:
    """The largest distance between the logits of tail and target, both from the target's hidden states."""
    whole = load_causal_lm(target, dtype=torch.float64)
    known = whole(TOKENS, output_hidden_states=True)
    # The last entry is after the norm, so a tail without layers takes it as it is.
    out = known.hidden_states[-1 - layers]
    loaded = load_tail(tail, layers, "cpu", torch.float64)
    positions = torch.arange(TOKENS.shape[1])[None]
    if layers:
        out = loaded.model(inputs_embeds=out, position_ids=positions, use_cache=False).last_hidden_state
    assert torch.equal(loaded.get_input_embeddings()(TOKENS), whole.get_input_embeddings()(TOKENS))
    return float((loaded.lm_head(out) - known.logits).abs().max())


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_a_tail_continues_where_the_earlier_layers_ended(target, tmp_path, layers):
    write_tail(target, 3, tmp_path)
    assert furthest_logits(target, tmp_path, layers) < 1e-10


@pytest.mark.parametrize("make", [make_fp8, make_int4])
def test_a_quantised_targets_tail_is_a_plain_checkpoint(make, tmp_path, monkeypatch):
    stored = make(tmp_path / "stored", make_checkpoint(tmp_path / "plain", "qwen2", layers=4))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))  # the system's folder may have no room
    write_tail(stored, 3, tmp_path / "tail")
    assert {file.name for file in (tmp_path / "tail").iterdir()} == {"config.json", "model.safetensors"}
    assert "quantization_config" not in json.loads((tmp_path / "tail" / "config.json").read_text())
    tensors = load_file(tmp_path / "tail" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    # Unpacking again rounds to bfloat16 at most once more.
    assert furthest_logits(stored, tmp_path / "tail", 3) < 0.1


@pytest.mark.parametrize("layers", [0, 3])
@pytest.mark.parametrize("make", [make_fp8, make_int4])
def test_a_quantised_targets_tail_holds_a_tied_head_once(make, layers, tmp_path):
    stored = make(tmp_path / "stored", make_checkpoint(tmp_path / "plain", "qwen2", layers=4, tied=True))
    write_tail(stored, layers, tmp_path / "tail")
    names = load_file(tmp_path / "tail" / "model.safetensors").keys()
    assert "model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names
    assert load_decoder(tmp_path / "tail", "cpu", "bfloat16") is not None
    assert furthest_logits(stored, tmp_path / "tail", layers) < 0.1


def test_experts_in_fp8_become_plain_numbers_on_a_device_that_computes_in_fp8(tmp_path, monkeypatch):
    stored = make_fp8(tmp_path / "stored", make_family_checkpoint(tmp_path / "plain", FAMILIES_BY_NAME["qwen3-moe"]))
    with monkeypatch.context() as patch:
        # Where there is no such device, this is what has transformers unpack the weights unasked.
        patch.setattr(FineGrainedFP8HfQuantizer, "validate_environment", lambda *_, **__: None)
        write_tail(stored, 2, tmp_path / "tail")
    found = load_tail(tmp_path / "tail", 2, "cpu", "bfloat16").model.layers.state_dict()
    wanted = load_causal_lm(stored, dtype="bfloat16").model.layers[2:].state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_layers_that_a_quantisation_leaves_out_are_told_by_their_new_numbers(tmp_path):
    plain = make_checkpoint(tmp_path / "plain", "llama", layers=4)
    left_out = ("model.layers.0.mlp.up_proj", "model.layers.3.mlp.up_proj")
    stored = make_fp8(tmp_path / "stored", plain, left_out=left_out)
    write_tail(stored, 2, tmp_path / "tail")
    tensors = load_file(tmp_path / "tail" / "model.safetensors")
    wanted = load_file(plain / "model.safetensors")
    for old, new in ((2, 0), (3, 1)):
        exact = torch.equal(
            tensors[f"model.layers.{new}.mlp.up_proj.weight"],
            wanted[f"model.layers.{old}.mlp.up_proj.weight"].to(torch.bfloat16),
        )
        assert exact == (old == 3)
    assert furthest_logits(stored, tmp_path / "tail", 2) < 0.1


def test_layers_that_read_more_than_hidden_states_make_no_tail(tmp_path):
    options = {**GEMMA_4.options, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 300}
    target = make_family_checkpoint(tmp_path / "target", replace(GEMMA_4, options=options))
    with pytest.raises(CheckpointError, match=r"read more than hidden states \(hidden_size_per_layer_input\), so that"):
        write_tail(target, 2, tmp_path / "tail")
    assert not (tmp_path / "tail").exists()


@pytest.mark.parametrize(("first", "last"), [(0, 0), (0, 1), (1, 2), (2, 3), (3, 3)])
def test_a_tail_has_its_experts_in_the_layers_that_had_them(first, last, tmp_path):
    options = {**ERNIE_MOE.options, "moe_layer_start_index": first, "moe_layer_end_index": last}
    target = make_family_checkpoint(tmp_path / "target", replace(ERNIE_MOE, options=options))
    write_tail(target, 2, tmp_path / "tail")
    assert furthest_logits(target, tmp_path / "tail", 2) < 1e-4


@pytest.mark.parametrize("layers", [0, 2])
def test_experts_in_every_other_layer_stay_where_they_are_in_as_many_layers_or_none(layers, tmp_path):
    target = make_family_checkpoint(tmp_path / "target", EVERY_OTHER)
    write_tail(target, layers, tmp_path / "tail")
    assert furthest_logits(target, tmp_path / "tail", layers) < 1e-4


def test_where_experts_would_be_in_other_layers_there_is_no_tail(tmp_path):
    target = make_family_checkpoint(tmp_path / "target", EVERY_OTHER)
    with pytest.raises(CheckpointError, match=r"on which their mlp.* depends"):
        write_tail(target, 1, tmp_path / "tail")
    assert not (tmp_path / "tail").exists()


def test_a_quantised_target_that_cannot_be_loaded_is_named(tmp_path):
    target = make_checkpoint(tmp_path / "target", "llama")
    config = json.loads((target / "config.json").read_text())
    settings = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
    (target / "config.json").write_text(json.dumps(config | settings))
    with pytest.raises(CheckpointError, match=rf"the checkpoint in {target} is quantised \(gptq\)"):
        write_tail(target, 1, tmp_path / "tail")


def test_what_a_file_says_of_its_tensors_stays_with_them(tmp_path):
    target = Path(shutil.copytree(make_checkpoint(tmp_path / "plain", "llama", layers=3), tmp_path / "target"))
    names = [f"model.layers.{layer}.mlp.up_proj.weight" for layer in range(3)]
    metadata = {"format": "pt", "tensor_names": json.dumps(names), names[1]: "{}", names[2]: '{"_type": "Int8Tensor"}'}
    save_file(load_file(target / "model.safetensors"), target / "model.safetensors", metadata=metadata)
    write_tail(target, 1, tmp_path / "tail")
    with safe_open(tmp_path / "tail" / "model.safetensors", framework="pt") as file:
        told = file.metadata()
    assert told == {"format": "pt", "tensor_names": json.dumps(names[:1]), names[0]: '{"_type": "Int8Tensor"}'}


@pytest.mark.parametrize("layers", [0, 2])
def test_a_tail_leaves_out_layers_behind_the_last_that_predict_further_tokens(tmp_path, layers):
    target = make_checkpoint(tmp_path / "target", "llama", layers=3)
    tensors = load_file(target / "model.safetensors")
    further = {name.replace(".2.", ".3."): each.clone() for name, each in tensors.items() if ".2." in name}
    save_file(tensors | further, target / "model.safetensors", metadata={"format": "pt"} | dict.fromkeys(further, "{}"))
    write_tail(target, layers, tmp_path / "tail")
    with safe_open(tmp_path / "tail" / "model.safetensors", framework="pt") as file:
        names = [*file.keys(), *file.metadata()]
    assert {int(name.split(".")[2]) for name in names if "layers" in name} == set(range(layers))
    assert furthest_logits(target, tmp_path / "tail", layers) < 1e-10


def test_a_tail_deeper_than_the_target_or_the_file_is_refused(target, tmp_path):
    with pytest.raises(CheckpointError, match="has 4 layers"):
        write_tail(target, 5, tmp_path)
    write_tail(target, 1, tmp_path)
    with pytest.raises(CheckpointError, match="last 1 layers, not 3"):
        load_tail(tmp_path, 3, "cpu", torch.float64)


def test_a_tail_holds_no_earlier_layer(target, tmp_path):
    write_tail(target, 1, tmp_path / "one")
    write_tail(target, 3, tmp_path / "three")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("one", "three")]
    assert sizes[0] < sizes[1]
