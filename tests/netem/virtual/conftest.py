"""A small target with its drafts, loaded once for all virtual runs."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from common.models.checkpoint import load_causal_lm
from netem.virtual.client import LoadedDrafts
from netem.virtual.server import VirtualServer, load_virtual_server
from tests.drafts import make_moa_draft
from tests.families import make_checkpoint


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("virtual") / "target", "llama")


@pytest.fixture(scope="session")
def drafts(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> list[Path]:
    """`twin` is the target once more, so that it drafts well; `moa` is random, so that it does not."""
    where = tmp_path_factory.mktemp("drafts")
    return [make_checkpoint(where / "twin", "llama"), make_moa_draft(where / "moa", checkpoint)]


@pytest.fixture(scope="session")
def server(checkpoint: Path, drafts: list[Path]) -> VirtualServer:
    opened = load_virtual_server(checkpoint, drafts)
    torch.set_num_threads(1)
    return opened


@pytest.fixture(scope="session")
def loaded_drafts(server: VirtualServer) -> LoadedDrafts:
    return LoadedDrafts(server)


@pytest.fixture(scope="session")
def truth(checkpoint: Path) -> Callable[[list[int], int], tuple[int, ...]]:
    """What transformers' own greedy generation says."""
    model = load_causal_lm(checkpoint, dtype="float32")

    def generate(prompt: list[int], count: int) -> tuple[int, ...]:
        ids = torch.tensor([prompt])
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count, pad_token_id=0
        )
        return tuple(made[0, len(prompt) :].tolist())

    return generate
