from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from common.models.checkpoint import load_causal_lm
from common.models.source import weight_files
from netem.experiments.sizes import checkpoints
from netem.experiments.sizes.checkpoints import end_tokens, write_checkpoint
from netem.experiments.sizes.targets import LLAMA_1B_TARGET, QWEN_600M_TARGET, TARGETS, SizedTarget, shrunk


@pytest.mark.parametrize("target", [LLAMA_1B_TARGET, QWEN_600M_TARGET])
def test_it_is_the_familys_checkpoint_in_shards(
    target: SizedTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_SHARD_BYTES", 100_000)
    small = shrunk(target)
    directory = write_checkpoint(tmp_path / "target", small, torch.bfloat16, seed=1)
    model = load_causal_lm(directory, dtype=torch.bfloat16)
    assert sum(parameter.numel() for parameter in model.parameters()) == small.dimensions.parameters
    assert model.config.rope_parameters == {**model.config.rope_parameters, **small.options["rope_parameters"]}
    assert set(end_tokens(small)) == set(model.generation_config.eos_token_id)
    files = weight_files(directory)
    assert len(files) > 3
    assert all(tensor.dtype is torch.bfloat16 for file in files for tensor in load_file(file).values())


def test_the_last_layers_alone_can_be_written(tmp_path: Path) -> None:
    small = shrunk(LLAMA_1B_TARGET)
    directory = write_checkpoint(tmp_path / "end", small, torch.float32, seed=1, last_layers=1)
    model = load_causal_lm(directory)
    assert model.config.num_hidden_layers == 1
    assert model.config.vocab_size == small.dimensions.vocabulary


def test_the_seed_decides_the_weights(tmp_path: Path) -> None:
    small = shrunk(QWEN_600M_TARGET)
    drawn = [
        load_causal_lm(write_checkpoint(tmp_path / name, small, torch.float32, seed)).get_input_embeddings()
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert torch.equal(drawn[0].weight, drawn[1].weight)
    assert not torch.equal(drawn[0].weight, drawn[2].weight)


def test_every_target_is_the_shape_that_its_maker_published() -> None:
    described = {each.dimensions.name: each.dimensions.parameters for each in TARGETS}
    assert described == {"Qwen3-0.6B": 596_049_920, "Llama-3.2-1B": 1_235_814_400, "Llama-3.1-8B": 8_030_261_248}
