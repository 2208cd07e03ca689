"""A trimmed draft model proposes frequent tokens alone, is otherwise the same, and leaves answers as they are."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from common.draft_kinds import DRAFT_KINDS
from common.draft_models.eagle import load_eagle
from common.draft_models.exporters import load_exporter
from common.draft_models.measured_acceptance import (
    MeasuredAcceptance,
    read_measured_acceptance,
    write_measured_acceptance,
)
from common.draft_models.moa import load_moa
from common.draft_models.tail import write_tail
from common.drafters.best_first import Expansion
from common.drafters.load import DrafterConfig, load_drafter
from common.models.checkpoint import load_causal_lm, load_tokenizer
from common.models.errors import CheckpointError
from common.models.packed import PackedModel
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from common.rounds import Rounds
from server.models.inspect import describe_draft, inspect_draft
from tests.drafts import make_eagle_draft, make_medusa_draft, make_moa_draft
from tests.families import make_checkpoint
from training.cli import app
from training.draft_models import trim
from training.draft_models.trim import trim_draft

SIZE = 40
MAKE = {"moa": make_moa_draft, "eagle": make_eagle_draft}


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("trim") / "target", "llama")


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("the cat sat on the mat and the dog sat on the cat\n\n" * 20)
    return file


@pytest.mark.parametrize("kind", MAKE)
def test_frequent_tokens_are_kept_and_the_weights_are_the_same(tmp_path, target, text, kind):
    draft = MAKE[kind](tmp_path / "draft", target)
    write_measured_acceptance(draft, {0: MeasuredAcceptance(2.5, 1.75)})
    trimmed = trim_draft(str(draft), str(target), [text], SIZE, tmp_path / "trimmed")
    assert trimmed.vocabulary == 300
    assert trimmed.covered == 1.0
    before, after = (load_file(folder / "model.safetensors") for folder in (draft, tmp_path / "trimmed"))
    kept = after.pop("kept_tokens")
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert len(kept) == SIZE
    # Every token that the text predicts is among the kept ones, or the share would be less than all.
    fewer = trim_draft(str(draft), str(target), [text], 3, tmp_path / "fewer")
    few = load_file(tmp_path / "fewer" / "model.safetensors")["kept_tokens"]
    assert set(few.tolist()) < set(kept.tolist())
    assert 3 / 300 < fewer.covered < 1.0
    assert read_measured_acceptance(tmp_path / "trimmed") == {0: MeasuredAcceptance(2.5, 1.75)}
    config, own = (json.loads((folder / "config.json").read_text()) for folder in (draft, tmp_path / "trimmed"))
    assert own == config | {"trimmed_from": "draft"}
    said = {each.subject: each.detail for each in describe_draft("trimmed", inspect_draft(str(tmp_path / "trimmed")))}
    assert said["accept length"] == "2.50 with 0 of its target's last layers, measured as draft, before trimming"


@pytest.mark.parametrize("kind", MAKE)
def test_a_text_that_never_ends_leaves_the_end_tokens(tmp_path, target, text, kind):
    """Of the three sources of end tokens only the file of the generation configuration names the highest."""
    ended = shutil.copytree(target, tmp_path / "ended")
    (ended / "generation_config.json").write_text(json.dumps({"eos_token_id": [299]}))
    draft = MAKE[kind](tmp_path / "draft", ended)
    trim_draft(str(draft), str(ended), [text], 6, tmp_path / "trimmed")
    kept = load_file(tmp_path / "trimmed" / "model.safetensors")["kept_tokens"].tolist()
    assert len(kept) == 6
    assert {0, 299} < set(kept)


@pytest.mark.parametrize("kind", MAKE)
def test_its_answers_are_the_targets(tmp_path, target, text, kind):
    draft = MAKE[kind](tmp_path / "draft", target)
    trim_draft(str(draft), str(target), [text], SIZE, tmp_path / "trimmed")
    write_tail(target, 0, tmp_path / "tail")
    kept = (load_eagle(tmp_path / "trimmed") if kind == "eagle" else load_moa(tmp_path / "trimmed", 0))[1]
    model = load_causal_lm(target, dtype=torch.float64)
    prompt = [5, 60, 7, 80, 9]
    said = model.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False, eos_token_id=None)[0, 5:].tolist()
    request = StateRequest("draft", 0, "float16")
    where = DrafterConfig(
        tmp_path / "trimmed",
        "cpu",
        "float64",
        128,
        300,
        request,
        Expansion(least_probability=1e-9),
        tail=tmp_path / "tail",
    )
    drafter = load_drafter(kind, where)
    proposed = set()

    class Watched:
        state, expansion = drafter.state, drafter.expansion

        def draft(self, view, states=()):
            proposals = drafter.draft(view, states)
            proposed.update(each.token for each in proposals)
            return proposals

    packed = PackedModel(model, 256, keep_hidden=True)
    exporter = load_exporter(DRAFT_KINDS[kind].state, tmp_path / "trimmed", packed)
    answer = Rounds(packed, Watched(), [exporter], levels=3).answer(prompt, 20)
    assert list(answer.tokens) == said
    assert proposed
    assert proposed <= set(kept.tolist())


def test_what_cannot_be_trimmed_is_refused_in_one_sentence(tmp_path, target, text):
    medusa = make_medusa_draft(tmp_path / "medusa", target)
    with pytest.raises(MisuseError, match="of kind 'medusa' does not propose by the head of its target"):
        trim_draft(str(medusa), str(target), [text], SIZE, tmp_path / "out")
    draft = make_eagle_draft(tmp_path / "draft", target)
    for size in (0, 301):
        with pytest.raises(MisuseError, match="between 1 and the target's 300"):
            trim_draft(str(draft), str(target), [text], size, tmp_path / "out")
    with pytest.raises(MisuseError, match="is not empty"):
        trim_draft(str(draft), str(target), [text], SIZE, draft)
    other = make_checkpoint(tmp_path / "other", "qwen2")
    with pytest.raises(CheckpointError, match="was trained for another target"):
        trim_draft(str(draft), str(other), [text], SIZE, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_trim_that_is_interrupted_leaves_nothing(tmp_path, target, text, monkeypatch):
    draft, out = make_moa_draft(tmp_path / "draft", target), tmp_path / "out"

    def interrupt(*_):
        assert any(out.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(trim, "write_measured_acceptance", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trim_draft(str(draft), str(target), [text], SIZE, out)
    assert not out.exists()


def test_text_of_tokens_that_the_target_does_not_have_is_refused(tmp_path, text):
    target = make_checkpoint(tmp_path / "target", "llama")
    tokenizer = load_tokenizer(target)
    tokenizer.add_tokens([f"<{number}>" for number in range(300)])
    tokenizer.save_pretrained(target)
    draft = make_eagle_draft(tmp_path / "draft", target)
    other = tmp_path / "other.txt"
    other.write_text("the cat sat on <299>")
    with pytest.raises(MisuseError, match=r"^[^\n]*other\.txt, line 1: .*'<299>'[^\n]*$"):
        trim_draft(str(draft), str(target), [text, other], SIZE, tmp_path / "out")


def test_the_command_says_how_much_of_the_text_is_covered(tmp_path, target, text):
    draft = make_eagle_draft(tmp_path / "draft", target)
    options = ["--draft", draft, "--target", target, "--data", text, "--out", tmp_path / "out"]
    found = CliRunner().invoke(app, ["trim", *map(str, options), "--draft-vocabulary", str(SIZE)])
    assert found.exit_code == 0, found.output
    assert "40 of 300 tokens, 100.00% of what the text predicts" in found.output
