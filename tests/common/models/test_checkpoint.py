"""Every way in which a checkpoint can be unusable is one plain sentence."""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from common.models.checkpoint import load_causal_lm, load_config, load_tokenizer, read_end_tokens
from common.models.errors import CheckpointError, HubError
from tests.families import make_checkpoint

Checkpoint = Callable[..., Path]


@pytest.fixture
def copy(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    """A checkpoint that a test may damage."""
    return Path(shutil.copytree(checkpoint("llama"), tmp_path / "copy"))


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_a_loaded_model_is_ready_for_inference(checkpoint: Checkpoint) -> None:
    model = load_causal_lm(checkpoint("qwen2"), dtype="bfloat16")
    assert not model.training
    assert model.dtype == torch.bfloat16
    assert not any(weight.requires_grad for weight in model.parameters())


def test_a_tokenizer_knows_text_and_chat(checkpoint: Checkpoint) -> None:
    tokenizer = load_tokenizer(checkpoint("mistral"))
    assert tokenizer.decode(tokenizer("fox and hen: é")["input_ids"]) == "fox and hen: é"
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hello"}], tokenize=False, add_generation_prompt=True
    )
    assert chat == "<|turn|>user\nhello<|end|><|turn|>assistant\n"


@pytest.mark.parametrize(
    ("configured", "ends"),
    [([5, 7], {5, 7}), (5, {5}), (None, set()), (-1, set()), ([5, -1], {5}), ([[5, 7]], set()), ([5, 300], {5})],
)
def test_what_is_no_token_ends_no_answer(copy: Path, configured: object, ends: set[int]) -> None:
    """The tokenizer's own end token, 0, always does; the model has logits for 300."""
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": configured}))
    assert read_end_tokens(copy, load_config(copy), load_tokenizer(copy)) == {0, *ends}


def test_loading_is_silent(checkpoint: Checkpoint, capfd: pytest.CaptureFixture[str]) -> None:
    load_causal_lm(checkpoint("qwen3", sharded=True))
    load_tokenizer(checkpoint("qwen3", sharded=True))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("load", [load_causal_lm, load_tokenizer])
def test_a_directory_without_configuration(load: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is not a checkpoint directory: it has no config\.json$"):
        load(tmp_path)


def test_a_configuration_that_is_no_json(copy: Path) -> None:
    (copy / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read as JSON"):
        load_causal_lm(copy)
    (copy / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="holds no JSON object"):
        load_causal_lm(copy)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model_type": "sparrow"}, "the model type 'sparrow' in .* is unknown to transformers"),
        ({"model_type": "clip", "architectures": None}, "the model type 'clip' in .* has no causal language model"),
        ({"model_type": None}, "names no model_type"),
        ({"model_type": None, "outrider_draft": "moa"}, "a draft model of the kind 'moa'.*give it as --draft"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "is an encoder with a decoder \\(model type 't5'\\)"),
        ({"architectures": ["BertForMaskedLM"]}, "is a BertForMaskedLM, which is no causal language model"),
        ({"model_type": "gemma3", "text_config": {}}, "reads more than text \\(model type 'gemma3'\\)"),
        ({"model_type": "llama4_text"}, "by a token's row in a pass \\(attn_temperature_tuning\\)"),
    ],
)
def test_what_is_no_causal_language_model(change: dict[str, object], sentence: str, copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | change))
    for load in (load_config, load_causal_lm):
        with pytest.raises(CheckpointError, match=sentence):
            load(copy)


def test_pickled_weights_are_never_read(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"as pytorch_model\.bin, which can run code.*weights_only=True"):
        load_causal_lm(copy)


def test_text_comes_back_as_it_was_whatever_a_tokenizer_would_clean_up(copy: Path) -> None:
    """A server looks for stop strings in the text that a client shows."""
    file = copy / "tokenizer_config.json"
    untidy = {"clean_up_tokenization_spaces": True}
    untidy["clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"] = True
    file.write_text(json.dumps(json.loads(file.read_text()) | untidy))
    text = "the fox , the hen ."
    theirs = AutoTokenizer.from_pretrained(copy)
    assert theirs.decode(theirs(text)["input_ids"]) != text
    ours = load_tokenizer(copy)
    assert ours.decode(ours(text)["input_ids"]) == text


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is neither a directory nor a model's name on the hub"):
        load_causal_lm(tmp_path / "absent")


def test_a_hub_name_without_network() -> None:
    with pytest.raises(HubError, match="could not be fetched from the hub; check the name and the network"):
        load_causal_lm("outrider-tests/absent")


def test_no_weights(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"has no weights; put its model\.safetensors there"):
        load_causal_lm(copy)


def test_truncated_weights(copy: Path) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="cannot be loaded; fetch or save it again"):
        load_causal_lm(copy)


def test_weights_of_another_shape(copy: Path, tmp_path: Path) -> None:
    wider = make_checkpoint(tmp_path / "wider", "llama", hidden=60)
    shutil.copy(wider / "model.safetensors", copy)
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load_causal_lm(copy)


def test_weights_that_lack_a_tensor(copy: Path) -> None:
    tensors = load_file(copy / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"lack 1 tensors, such as model\.layers\.1\.mlp\.up_proj\.weight"):
        load_causal_lm(copy)


def test_a_shard_that_is_missing(checkpoint: Checkpoint, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint("llama", sharded=True), tmp_path / "copy"))
    min(copy.glob("*.safetensors")).unlink()
    with pytest.raises(CheckpointError, match=r"lacks model-00001-of-000\d\d\.safetensors; fetch the checkpoint"):
        load_causal_lm(copy)
    (copy / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(CheckpointError, match="maps no weights"):
        load_causal_lm(copy)


def test_a_configuration_that_makes_no_sense(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"hidden_size": "wide"}))
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_causal_lm(copy)


def test_a_model_too_large_for_the_device(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(torch.nn.Module, "to", refuse)
    with pytest.raises(CheckpointError, match="does not fit into the memory of cpu; choose a smaller dtype"):
        load_causal_lm(copy)


def test_no_tokenizer(copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no tokenizer; put its tokenizer\.json there"):
        load_tokenizer(copy)


def test_a_broken_tokenizer(copy: Path) -> None:
    (copy / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(CheckpointError, match=r"the tokenizer in .* cannot be read"):
        load_tokenizer(copy)


@pytest.mark.parametrize("dtype", ["float31", torch.int8])
def test_an_unknown_dtype(dtype: str | torch.dtype, copy: Path) -> None:
    with pytest.raises(CheckpointError, match="is unknown; use one of: float64, float32, bfloat16, float16"):
        load_causal_lm(copy, dtype=dtype)


def test_an_unknown_device(copy: Path) -> None:
    with pytest.raises(CheckpointError, match="the device 'gpu' is unknown; use cpu, cuda or mps"):
        load_causal_lm(copy, device="gpu")


@pytest.mark.parametrize("device", ["xpu", "meta"])
def test_a_device_that_passes_do_not_run_on(device: str, copy: Path) -> None:
    with pytest.raises(CheckpointError, match=f"passes do not run on the device '{device}'; use cpu, cuda or mps"):
        load_causal_lm(copy, device=device)


@pytest.mark.parametrize(
    ("count", "device", "here"), [(0, "cuda", "cpu"), (0, "cuda:0", "cpu"), (1, "cuda:99", "cpu, cuda:0")]
)
def test_a_device_that_is_absent(
    count: int, device: str, here: str, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(CheckpointError, match=f"the device '{device}' is not in this machine; use one of: {here}$"):
        load_causal_lm(copy, device=device)


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
@pytest.mark.parametrize("repository", ["kernels-community/attention", "paged|someone/attention", ["a/b"]])
def test_kernels_from_elsewhere_are_never_asked_for(copy: Path, key: str, repository: object) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {key: repository}))
    with pytest.raises(CheckpointError, match=f"an attention that it does not bring.*take '{key}' out"):
        load_causal_lm(copy)
    (copy / "config.json").write_text(json.dumps(config | {key: "sdpa"}))
    load_causal_lm(copy)


def test_a_tokenizer_that_cannot_read_is_refused_when_it_is_loaded(copy: Path) -> None:
    """Each of these is accepted as a tokenizer, and fails or panics at the first text of some length."""
    config = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(json.dumps(config | {"model_max_length": "long"}))
    with pytest.raises(CheckpointError, match=r"the tokenizer in .* cannot be read"):
        load_tokenizer(copy)
    (copy / "tokenizer_config.json").write_text(json.dumps(config))
    load_tokenizer(copy)
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    truncation = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 1 << 62}
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer | {"truncation": truncation}))
    with pytest.raises(CheckpointError, match=r"the tokenizer in .* cannot be read"):
        load_tokenizer(copy)


def test_json_that_is_nested_too_deeply_is_refused(copy: Path) -> None:
    (copy / "config.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match="cannot be read as JSON"):
        load_causal_lm(copy)


@pytest.mark.parametrize("kind", ["RagTokenizer", "ByT5Tokenizer"])
def test_a_tokenizer_of_another_kind_of_model_is_told_as_such(copy: Path, kind: str) -> None:
    config = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(json.dumps(config | {"tokenizer_class": kind}))
    with pytest.raises(CheckpointError, match=f"is a {kind}, which fits no language model that runs here"):
        load_tokenizer(copy)


def test_a_tokenizer_that_explodes_is_refused_before_it_is_loaded(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    doubling = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["normalizer"] = {"type": "Sequence", "normalizers": [doubling] * 40}
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", None)
    with pytest.raises(CheckpointError, match="times as long"):
        load_tokenizer(copy)


@pytest.mark.parametrize("loader", [AutoTokenizer, AutoModelForCausalLM])
@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")]
)
def test_too_little_memory_is_no_fault_of_the_checkpoints(copy: Path, monkeypatch, loader, error) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(loader, "from_pretrained", fail)
    with pytest.raises(CheckpointError, match="there is too little memory"):
        (load_tokenizer if loader is AutoTokenizer else load_causal_lm)(copy)


@pytest.mark.parametrize("load", [load_config, load_tokenizer])
def test_code_that_comes_with_a_checkpoint_is_never_run(
    load: Callable[[Path], object], copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if the user at the terminal would agree."""
    (copy / "trap.py").write_text(f"from pathlib import Path\nPath({str(copy / 'sprung')!r}).touch()\n")
    for name, kind in (("config.json", "AutoConfig"), ("tokenizer_config.json", "AutoTokenizer")):
        content = json.loads((copy / name).read_text())
        mapped = "trap.Trap" if kind == "AutoConfig" else ["trap.Trap", "trap.Trap"]
        content |= {"model_type": "trap", "tokenizer_class": "Trap", "auto_map": {kind: mapped}}
        (copy / name).write_text(json.dumps(content))
    asked = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "y")
    with contextlib.suppress(CheckpointError):
        load(copy)
    assert not asked
    assert not (copy / "sprung").exists()
