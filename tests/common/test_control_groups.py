"""Memory limits of containers and units, in trees of files as the kernel shows them."""

import math

import pytest

from common import control_groups, memory
from common.control_groups import memory_left_bytes


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Makes the files of a group; this process is in the one that is told last."""
    monkeypatch.setattr(control_groups, "_OWN", tmp_path / "own")
    monkeypatch.setattr(control_groups, "_MOUNTED", tmp_path / "mounted")
    (tmp_path / "own").write_text("0::/\n")

    def make(path: str, limit: str, usage: int, reclaimable: int = 0) -> None:
        folder = tmp_path / "mounted" / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{usage}\n")
        (folder / "memory.stat").write_text(
            f"anon {usage}\ninactive_file {reclaimable - reclaimable // 4}\nactive_file {reclaimable // 4}\nfile 9000\n"
        )
        (tmp_path / "own").write_text(f"0::/{path}\n")

    return make


def test_nothing_is_limited_where_there_are_no_groups(group, tmp_path):
    assert memory_left_bytes() == math.inf
    (tmp_path / "own").unlink()
    assert memory_left_bytes() == math.inf


def test_what_the_kernel_would_give_up_is_left(group):
    group("", "1000", 700, reclaimable=200)
    assert memory_left_bytes() == 500


def test_the_narrowest_group_of_all_above_counts(group):
    group("", "max", 9000)
    group("system.slice", "1000", 700)
    group("system.slice/outriderd.service", "800", 200)
    assert memory_left_bytes() == 300
    group("system.slice/outriderd.service", "max", 200)
    assert memory_left_bytes() == 300


def test_a_group_that_is_full_leaves_nothing(group):
    group("", "1000", 1200)
    assert memory_left_bytes() == 0


def test_a_path_of_the_host_stands_for_the_containers_own_group(group, tmp_path):
    group("", "1000", 700)
    (tmp_path / "own").write_text("0::/../kubepods/pod1\n")
    assert memory_left_bytes() == 300


def test_groups_of_the_first_version_are_read_too(group, tmp_path):
    folder = tmp_path / "mounted" / "memory" / "docker"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text("1000\n")
    (folder / "memory.usage_in_bytes").write_text("700\n")
    (folder / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 150\ntotal_active_file 50\n")
    (tmp_path / "own").write_text("5:cpu,cpuacct:/docker\n4:memory:/docker\n0::/docker\n")
    assert memory_left_bytes() == 500


def test_free_memory_is_no_more_than_is_left(group):
    assert memory.free_memory_bytes("cpu") > 1000
    group("", "1000", 700)
    assert memory.free_memory_bytes("cpu") == 300
