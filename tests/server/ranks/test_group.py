"""A rank is bound to its own GPU before anything asks for a device's memory. What ranks send needs processes
(`test_daemon.py`)."""

import pytest
import torch
import torch.distributed as dist

from server.rank_info import LOCAL_RANK, RankInfo
from server.ranks.group import Group


@pytest.mark.parametrize(("device", "bound"), [("cuda", [3]), ("cpu", [])])
def test_a_rank_is_bound_to_its_own_gpu(monkeypatch: pytest.MonkeyPatch, device: str, bound: list[int]) -> None:
    found: list[int] = []
    monkeypatch.setenv(LOCAL_RANK, "3")
    monkeypatch.setattr(torch.accelerator, "set_device_index", found.append)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: found.append(-1))
    Group(RankInfo(7, 8, 4, is_launched=True), device)
    assert found == [*bound, -1]
