"""Directories of draft models: what is loaded from one, and what becomes of it when the directory is written anew."""

from pathlib import Path

import pytest
import torch
from torch import nn

from common.draft_models.directory import network_from, save_draft
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError


def test_a_network_takes_the_tensors_of_the_mapped_file_as_they_are(tmp_path: Path) -> None:
    save_draft(tmp_path, "moa", "f", {}, nn.Linear(4, 3).to(torch.bfloat16).state_dict())
    tensors = read_tensors(tmp_path)
    network = network_from(lambda: nn.Linear(4, 3), tensors, tmp_path)
    assert network.weight.data_ptr() == tensors["weight"].data_ptr()
    assert network.weight.dtype is torch.bfloat16
    assert not network.weight.requires_grad


def test_a_network_outlives_the_file_that_it_was_loaded_from(tmp_path: Path) -> None:
    first = nn.Linear(64, 64)
    save_draft(tmp_path, "moa", "f", {}, first.state_dict())
    network = network_from(lambda: nn.Linear(64, 64), read_tensors(tmp_path), tmp_path)
    save_draft(tmp_path, "moa", "f", {}, nn.Linear(64, 64).state_dict())
    assert torch.equal(network.weight, first.weight)
    assert not torch.equal(read_tensors(tmp_path)["weight"], first.weight)


@pytest.mark.parametrize("other", [nn.Linear(4, 2), nn.Linear(4, 3, bias=False), nn.Sequential(nn.Linear(4, 3))])
def test_weights_of_another_network_are_refused(tmp_path: Path, other: nn.Module) -> None:
    with pytest.raises(CheckpointError, match="do not fit"):
        network_from(lambda: nn.Linear(4, 3), other.state_dict(), tmp_path)
