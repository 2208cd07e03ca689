import json

import pytest

from client.demo.family import choose_prompts, find_family
from client.errors import DemoError
from common.models import shipped
from common.models.errors import CheckpointError


@pytest.mark.parametrize("content", ["", "\n\n", "{", '["prompt"]', '{"id": 1}', "7", "null"])
def test_prompts_that_cannot_be_used_are_one_sentence(tmp_path, content):
    file = tmp_path / "prompts.jsonl"
    file.write_text(content)
    with pytest.raises(DemoError, match=r"prompts\.jsonl .*restore it from the release"):
        choose_prompts(file, 3, seed=0)


def test_where_the_shipped_models_are_absent_they_can_be_got(tmp_path, monkeypatch):
    monkeypatch.setitem(shipped.FAMILIES, "demo", shipped.ModelFolder(tmp_path / "demo"))
    with pytest.raises(CheckpointError, match=r"not in .*demo: reinstall Outrider from a wheel that holds them"):
        find_family(None)


def test_the_seed_chooses(tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(json.dumps({"prompt": str(number)}) for number in range(20)))
    assert choose_prompts(file, 5, seed=1) == choose_prompts(file, 5, seed=1) != choose_prompts(file, 5, seed=2)
    assert len(choose_prompts(file, 50, seed=1)) == 20
