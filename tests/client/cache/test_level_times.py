"""client.cache.level_times: what was timed once is not timed again, and what cannot be kept is no fault."""

import json
import math

import pytest

from client.cache.level_times import LevelTimes


def test_what_was_timed_is_kept_under_its_key(tmp_path):
    assert LevelTimes(tmp_path).of("moa 0", lambda: 0.25) == 0.25
    assert LevelTimes(tmp_path).of("moa 3", lambda: 0.5) == 0.5
    assert LevelTimes(tmp_path).of("moa 0", lambda: pytest.fail("it is known")) == 0.25


@pytest.mark.parametrize("broken", [b"{", b"[]", b'{"moa 0": "long"}', b'{"moa 0": [1]}', b'{"moa 0": -1}', b"\xff"])
def test_a_broken_file_is_replaced(tmp_path, broken):
    (tmp_path / "level-times.json").write_bytes(broken)
    assert LevelTimes(tmp_path).of("moa 0", lambda: 0.25) == 0.25
    assert LevelTimes(tmp_path).of("moa 0", lambda: pytest.fail("it is known")) == 0.25


def test_what_drafts_nothing_alone_is_kept_as_json_can_say_it(tmp_path):
    assert LevelTimes(tmp_path).of("hydra 0", lambda: math.inf) == math.inf
    assert LevelTimes(tmp_path).of("hydra 0", lambda: pytest.fail("it is known")) == math.inf
    json.loads((tmp_path / "level-times.json").read_text(), parse_constant=pytest.fail)


def test_a_cache_that_cannot_be_written_only_forgets(tmp_path):
    nowhere = LevelTimes(tmp_path / "absent")
    assert [nowhere.of("moa 0", lambda: 0.25), nowhere.of("moa 0", lambda: 0.5)] == [0.25, 0.5]
