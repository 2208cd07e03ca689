import json

import pytest

from common.protocol.errors import MisuseError
from netem.experiments.one_device.prompts import CATEGORIES, choose, read_prompts
from tests.netem.experiments.one_device.folder import write_prompts


def test_prompts_are_chosen_by_category_and_seed_without_held_out_families(tmp_path):
    write_prompts(tmp_path / "prompts.jsonl", each=9)
    chosen = choose(tmp_path / "prompts.jsonl", 3, seed=1)
    assert tuple(chosen) == CATEGORIES
    assert all(len({prompt.text for prompt in prompts}) == 3 for prompts in chosen.values())
    assert chosen == choose(tmp_path / "prompts.jsonl", 3, seed=1) != choose(tmp_path / "prompts.jsonl", 3, seed=2)
    everything = choose(tmp_path / "prompts.jsonl", 99, seed=0)
    assert "another" not in [prompt.text for prompt in everything["code"]]
    assert len(everything["code"]) == 9
    assert len(read_prompts(tmp_path / "prompts.jsonl")) == 9 * len(CATEGORIES) + 1


@pytest.mark.parametrize("line", ["no json", "[]", json.dumps({"prompt": "without a category"})])
def test_other_files_are_refused_in_a_sentence(tmp_path, line):
    (tmp_path / "prompts.jsonl").write_text(line + "\n")
    with pytest.raises(MisuseError, match="cannot be read as prompts"):
        choose(tmp_path / "prompts.jsonl", 3, seed=0)


def test_prompts_of_no_category_are_refused(tmp_path):
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt": "a", "category": "other"}))
    with pytest.raises(MisuseError, match="no prompt of the categories code, math"):
        choose(tmp_path / "prompts.jsonl", 3, seed=0)
