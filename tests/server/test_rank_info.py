"""Which rank a process is, and what cannot be."""

import pytest

from common.protocol.errors import MisuseError
from server.rank_info import ALONE, RankInfo, check_devices, find_rank_info

LAUNCHED = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


def test_one_process_is_alone() -> None:
    assert find_rank_info(None, {}) == ALONE
    assert find_rank_info(1, {}) == ALONE


def test_the_first_rank_starts_the_others_itself() -> None:
    assert find_rank_info(3, {}) == RankInfo(rank=0, ranks=3, local=3)


def test_torchrun_says_which_rank_this_is() -> None:
    assert find_rank_info(None, LAUNCHED) == RankInfo(rank=1, ranks=4, local=2, is_launched=True)
    assert find_rank_info(4, LAUNCHED) == find_rank_info(None, LAUNCHED)


def test_another_number_than_torchruns_is_misuse() -> None:
    with pytest.raises(MisuseError, match="torchrun started 4 processes, but --tensor-parallel says 2"):
        find_rank_info(2, LAUNCHED)
    with pytest.raises(MisuseError, match="torchrun started 1 process, but"):
        find_rank_info(2, LAUNCHED | {"RANK": "0", "WORLD_SIZE": "1"})


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "abc", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": ""},
        {"RANK": "0", "WORLD_SIZE": "0"},
        {"RANK": "0", "WORLD_SIZE": "-1"},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "3", "WORLD_SIZE": "1"},
        {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "two"},
    ],
)
def test_variables_that_name_no_process_of_a_group_are_misuse(environment: dict[str, str]) -> None:
    with pytest.raises(MisuseError, match="unset"):
        find_rank_info(None, environment)


def test_each_rank_needs_a_gpu_of_its_own() -> None:
    check_devices(RankInfo(ranks=4, local=2, is_launched=True), "cuda", 2)
    with pytest.raises(MisuseError, match="4 ranks need a GPU each, but this machine has 2; start 2"):
        check_devices(RankInfo(ranks=4, local=4), "cuda", 2)
    with pytest.raises(MisuseError, match="leave out --tensor-parallel"):
        check_devices(RankInfo(ranks=2, local=2), "cuda", 1)


def test_a_cpu_takes_any_number_of_ranks_and_other_devices_none() -> None:
    check_devices(RankInfo(ranks=8, local=8), "cpu", 0)
    for device in ("mps", "cuda:1"):
        with pytest.raises(MisuseError, match=f"but not on '{device}'"):
            check_devices(RankInfo(ranks=2, local=2), device, 8)
