import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from common.models import shipped
from common.protocol.errors import MisuseError
from netem.experiments.experiment import Request
from netem.experiments.one_device.compared_drafts import find_drafts, find_model_paths, models, need


def names(drafts):
    return [draft.name for draft in drafts]


def test_all_drafts_of_a_folder_are_found_in_the_order_of_their_kinds(request_for, folder):
    found = find_drafts(request_for())
    assert names(found) == ["lookup", "ouroboros", "lookahead", "draft", "eagle", "moa, N=0", "moa, N=1"]
    kinds = ["lookup", "ouroboros", "lookahead", "independent", "eagle", "moa", "moa"]
    assert [draft.kind.name for draft in found] == kinds
    assert names(find_drafts(request_for(), with_weightless=False))[0] == "draft"
    assert models(request_for()) == {name: folder / name for name in ("target", "draft", "eagle", "moa")}


def test_named_drafts_keep_the_order_of_the_command_line(request_for, folder):
    assert names(find_drafts(request_for("moa:1", "lookup", "eagle"))) == ["moa, N=1", "lookup", "eagle"]
    assert list(models(request_for("moa:1", "lookup"))) == ["target", "moa"]


def test_merged_drafts_name_all_that_draft_into_one_tree(request_for):
    (merged,) = find_drafts(request_for("moa:1+draft+lookup"))
    assert merged.name == "moa, N=1+draft+lookup"
    assert [(each.name, each.depth) for each in merged.members] == [("moa, N=1", 1), ("draft", 0), ("lookup", 0)]
    assert (merged.forwards, merged.members[0].forwards, merged.members[2].forwards) == (2, 1, 1)
    assert list(models(request_for("moa:1+draft"))) == ["target", "moa", "draft"]


def test_drafts_for_different_targets_are_not_merged(request_for, folder, tmp_path):
    own = Path(shutil.copytree(folder, tmp_path / "models"))
    for name, target in (("moa", "one"), ("eagle", "another")):
        config = json.loads((own / name / "config.json").read_text())
        (own / name / "config.json").write_text(json.dumps({**config, "target_fingerprint": target}))
    find_drafts(replace(request_for("moa:1", "eagle", "eagle+lookup"), models=own))
    with pytest.raises(MisuseError, match="'moa, N=1' and 'eagle' cannot draft together, for they were made for diff"):
        find_drafts(replace(request_for("moa:1+eagle"), models=own))


@pytest.mark.parametrize(
    ("draft", "sentence"),
    [
        ("medusa", r"holds no draft 'medusa'; train one with `outrider-train medusa --target .*target --data FILE"),
        ("target", "holds no draft 'target'"),
        ("moa:7", "the draft 'moa' has no depth 7; choose one of 0, 1"),
    ],
)
def test_a_missing_draft_is_answered_by_how_to_get_it(request_for, draft, sentence):
    with pytest.raises(MisuseError, match=sentence):
        find_drafts(request_for(draft))


def test_an_empty_folder_says_what_to_train(tmp_path):
    request = Request(seed=0, quick=True, models=tmp_path)
    with pytest.raises(MisuseError, match=r"holds no draft; train one with `outrider-train moa --target demo "):
        find_drafts(request)
    with pytest.raises(MisuseError, match="no folder"):
        find_drafts(Request(seed=0, quick=True, models=tmp_path / "absent"))


def test_a_folder_without_a_target_stands_on_the_shipped_one(tmp_path):
    paths = find_model_paths(Request(seed=0, quick=True, models=tmp_path))
    assert paths.target.parts[-2:] == ("demo", "target")
    assert paths.prompts.name == "prompts.jsonl"


def test_where_the_shipped_models_are_absent_they_can_be_got(tmp_path, monkeypatch):
    monkeypatch.setitem(shipped.FAMILIES, "demo", shipped.ModelFolder(tmp_path / "demo"))
    with pytest.raises(MisuseError, match=r"shipped 'demo' models are not in .*demo: reinstall Outrider"):
        find_model_paths(Request(seed=0, quick=True))
    with pytest.raises(MisuseError, match=r"has no target .*: reinstall Outrider"):
        find_model_paths(Request(seed=0, quick=True, models=tmp_path))


def test_what_an_experiment_needs_is_asked_for(request_for, folder):
    found = find_drafts(request_for())
    assert names(need(found, "moa", folder)) == ["moa, N=0", "moa, N=1"]
    with pytest.raises(MisuseError, match="needs a draft of kind 'medusa'; train one with"):
        need(found, "medusa", folder)
