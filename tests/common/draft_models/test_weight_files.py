"""The weights of drafts: in one file, in Medusa's own, in shards, and refused as pickle with the way to convert."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from common.draft_models.weight_files import draft_weight_files, read_tensors, tensor_names
from common.models.errors import CheckpointError
from common.models.source import weight_files
from tests.programs import FORKS
from tests.sharded import shard

TENSORS = {"fc.weight": torch.arange(6.0).view(2, 3), "a.b": torch.ones(2), "medusa_head.c": torch.zeros(3)}


def test_heads_may_lie_in_a_file_of_their_own(tmp_path):
    save_file(TENSORS, tmp_path / "medusa_lm_head.safetensors")
    assert [file.name for file in draft_weight_files(tmp_path)] == ["medusa_lm_head.safetensors"]
    assert read_tensors(tmp_path).keys() == TENSORS.keys()


def test_shards_are_read_as_one_file_is(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors")
    shard(tmp_path)
    assert len(draft_weight_files(tmp_path)) == 2
    read = read_tensors(tmp_path)
    assert tensor_names(tmp_path) == read.keys() == TENSORS.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in TENSORS.items())
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    assert tensor_names(tmp_path) == set()
    with pytest.raises(CheckpointError, match=r"lacks model-00002-of-00002\.safetensors; fetch"):
        read_tensors(tmp_path)


def test_what_does_not_begin_with_a_prefix_is_not_read_where_something_does(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors")
    assert read_tensors(tmp_path, prefix="medusa_head.").keys() == {"medusa_head.c"}
    assert read_tensors(tmp_path, prefix="hydra_head.").keys() == TENSORS.keys()


def test_a_broken_shard_is_named(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors")
    shard(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(b"no tensors")
    with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.safetensors is missing or broken"):
        read_tensors(tmp_path)


def run_in(folder: Path, code: str) -> None:
    """As `python -c` runs it."""
    os.chdir(folder)
    exec(code, {"__name__": "__main__"})


@pytest.mark.parametrize(
    "names",
    [
        ("pytorch_model.bin",),
        ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"),
        ("medusa_lm_head.pt",),
    ],
    ids=["one file", "shards", "heads"],
)
def test_pickled_weights_are_refused_and_the_command_shown_converts_them(tmp_path, names):
    shared = torch.arange(4.0)
    for index, name in enumerate(names):
        torch.save({f"{index}.a": shared, f"{index}.b": shared}, tmp_path / name)
    if len(names) > 1:
        (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {}}))
    with pytest.raises(CheckpointError, match=names[0]) as raised:
        draft_weight_files(tmp_path)
    with pytest.raises(CheckpointError) as of_a_model:
        weight_files(tmp_path)
    assert str(of_a_model.value) == str(raised.value)
    code = str(raised.value).split('python -c "')[1].split('"`')[0]
    converting = FORKS.Process(target=run_in, args=(tmp_path, code), daemon=True)  # which has imported torch already
    converting.start()
    converting.join(120)
    assert converting.exitcode == 0
    read = read_tensors(tmp_path)
    assert read.keys() == {f"{index}.{name}" for index in range(len(names)) for name in "ab"}
    assert all(torch.equal(tensor, shared) for tensor in read.values())


@pytest.mark.parametrize("find", [draft_weight_files, weight_files], ids=["of a draft", "of a model"])
def test_a_directory_without_weights_is_refused(tmp_path, find):
    with pytest.raises(CheckpointError, match=r"has no weights.*; put its model\.safetensors there"):
        find(tmp_path)
