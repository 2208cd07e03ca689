"""`outriderd drafts inspect` says what a directory holds, and the first reason why it does not fit a target."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from common.draft_models.eagle import EagleConfig, EagleDraft, save_eagle
from common.draft_models.layers import LayerShape
from common.draft_models.state_codec import StateCodec
from server import cli
from tests.common.draft_models import published_dflash, published_eagle3, test_eagle, test_hydra, test_medusa
from tests.drafts import (
    make_block_draft,
    make_clover_draft,
    make_dflash_draft,
    make_eagle3_draft,
    make_eagle_draft,
    make_glide_draft,
    make_hydra_draft,
    make_medusa_draft,
    make_moa_draft,
    make_tandem_draft,
)
from tests.families import make_checkpoint
from tests.sharded import shard

Run = Callable[..., tuple[int, dict[str, dict[str, str]]]]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("target") / "big", "llama", dtype=torch.float32)


@pytest.fixture
def inspect(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command; returns its exit code, and the findings by subject, or the sentence as `error`."""

    def run(*arguments: str | Path) -> tuple[int, dict[str, dict[str, str]]]:
        monkeypatch.setattr(sys, "argv", ["outriderd", "drafts", "inspect", "--json", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        if said.err:
            (line,) = said.err.splitlines()
            return int(ended.value.code or 0), {"error": {"detail": line}}
        return int(ended.value.code or 0), {each["subject"]: each for each in json.loads(said.out)["findings"]}

    return run


MAKERS = {
    "moa": make_moa_draft,
    "block": make_block_draft,
    "dflash": make_dflash_draft,
    "tandem": make_tandem_draft,
    "glide": make_glide_draft,
    "eagle3": make_eagle3_draft,
    "eagle": make_eagle_draft,
    "clover": make_clover_draft,
    "hydra": make_hydra_draft,
    "medusa": make_medusa_draft,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_draft_of_ours_fits_its_target_alone(inspect: Run, target: Path, tmp_path: Path, kind: str) -> None:
    draft = MAKERS[kind](tmp_path / "mine", target)
    code, said = inspect(draft, "--target", target)
    assert code == 0
    assert said["draft"]["detail"] == "mine, ours, as `outrider-train` writes it"
    assert said["kind"]["detail"].startswith(f"{kind}, ")
    weights = [load_file(file) for file in draft.glob("*.safetensors")]
    count = sum(each.numel() for tensors in weights for each in tensors.values() if each.is_floating_point())
    assert said["weights"]["detail"].startswith(f"{count:,} parameters in {sum(map(len, weights))} tensors, F32")
    assert "hidden size 48" in said["made for"]["detail"]
    assert said["target"]["detail"].startswith("it fits big, fingerprint ")
    other = make_checkpoint(tmp_path / "other", "llama", seed=1, dtype=torch.float32)
    code, said = inspect(draft, "--target", other)
    assert code == 1
    assert "it does not fit other" in said["target"]["detail"]
    assert "was trained for another target (fingerprint" in said["target"]["fix"]


def test_a_trimmed_head_is_counted(inspect: Run, target: Path, tmp_path: Path) -> None:
    _, said = inspect(make_eagle3_draft(tmp_path / "three", target, kept=3))
    assert said["proposes"]["detail"] == "100 tokens"
    eagle = EagleDraft(EagleConfig(LayerShape(48, 4, 2, 8, 40)))
    save_eagle(tmp_path / "one", "f" * 64, eagle, torch.tensor([4, 8, 15]))
    _, said = inspect(tmp_path / "one")
    assert said["proposes"]["detail"] == "3 tokens"


def test_the_rate_of_a_learnt_codec_is_said(inspect: Run, target: Path, tmp_path: Path) -> None:
    _, plain = inspect(make_moa_draft(tmp_path / "plain", target))
    assert "draft state" not in plain
    draft = make_moa_draft(tmp_path / "narrow", target, codec=StateCodec(7, "int3"))
    code, said = inspect(draft, "--target", target)
    assert code == 0
    assert said["draft state"]["detail"] == "7 numbers of a token in int3, through a learnt codec"
    config = json.loads((draft / "config.json").read_text())
    config["codec"]["version"] = 2
    (draft / "config.json").write_text(json.dumps(config))
    code, said = inspect(draft, "--target", target)
    assert code == 2
    assert "in version 2 of the learnt codec" in said["error"]["detail"]


def test_published_layouts_are_told_apart(inspect: Run, tmp_path: Path) -> None:
    test_eagle.write_published(tmp_path / "eagle", test_eagle.LLAMA_3)
    for layout in published_eagle3.LAYOUTS:
        published_eagle3.write(tmp_path / layout, layout, published_eagle3.tensors_of(layout))
    test_medusa.write_published(tmp_path / "medusa", 2, 1)
    for name, plus in (("hydra", False), ("hydra++", True)):
        test_hydra.write_published(tmp_path / name, plus=plus)
    published_dflash.write(tmp_path / "dflash", 8, 20)
    expected = {
        "dflash": (
            "a DFlash draft as its authors publish it",
            "hidden size 8, vocabulary 20, at least layers 3",
            "all of its target's tokens",
        ),
        "eagle": ("an EAGLE-1/2 draft as its authors publish it", "hidden size 32", "all of its target's tokens"),
        "authors": ("an EAGLE-3 draft as its authors publish it", "hidden size 32, vocabulary 60", "7 tokens"),
        "speculators": (
            "an EAGLE-3 draft in the layout of speculators",
            "some/target, hidden size 32, vocabulary 60",
            "7 tokens",
        ),
        "hydra": (
            "Hydra heads as their authors publish them",
            "some/target, hidden size 256, vocabulary 20",
            "all of its target's tokens",
        ),
        "hydra++": (
            "Hydra++ heads as their authors publish them",
            "some/target, hidden size 256, vocabulary 20",
            "all of its target's tokens",
        ),
        "medusa": (
            "Medusa heads as their authors publish them",
            "some/target, hidden size 8, vocabulary 20",
            "all of its target's tokens",
        ),
    }
    for name, (layout, made_for, proposes) in expected.items():
        code, said = inspect(tmp_path / name)
        assert code == 0
        found = (said["draft"]["detail"], said["made for"]["detail"], said["proposes"]["detail"])
        assert found == (f"{name}, {layout}", made_for, proposes)


def test_of_a_whole_model_the_heads_are_counted(inspect: Run, tmp_path: Path) -> None:
    heads = test_medusa.write_published(tmp_path / "whole", 1, 1, prefix="medusa_head.", file="model.safetensors")
    save_file(heads | {"lm_head.weight": torch.zeros(20, 8)}, tmp_path / "whole" / "model.safetensors")
    code, said = inspect(tmp_path / "whole", "--tensors")
    assert code == 0
    assert said["weights"]["detail"] == f"{8 * 8 + 8 + 20 * 8} parameters in 3 tensors, F32"
    assert "lm_head.weight" not in said


def test_a_published_draft_of_other_sizes_does_not_fit(inspect: Run, target: Path, tmp_path: Path) -> None:
    published_eagle3.write(tmp_path / "draft", "authors", published_eagle3.tensors_of("authors"))
    code, said = inspect(tmp_path / "draft", "--target", target)
    assert code == 1
    assert "made for another target (hidden size 32, this one's is 48)" in said["target"]["fix"]


def test_a_smaller_language_model_is_a_draft_too(inspect: Run, target: Path, tmp_path: Path) -> None:
    small = make_checkpoint(tmp_path / "small", "llama", layers=1, dtype=torch.float32)
    save_file({"again": torch.zeros(7)}, small / "consolidated.safetensors")
    code, said = inspect(small, "--target", target, "--tensors")
    assert code == 0
    assert "again" not in said
    assert said["draft"]["detail"] == "small, a causal language model, as transformers saves it"
    assert said["made for"]["detail"] == "any target with its tokenizer"
    assert said["model.norm.weight"]["detail"] == "F32 [48]"
    (small / "tokenizer.json").unlink()
    code, said = inspect(small, "--target", target)
    assert code == 1
    assert "tokenizer" in said["target"]["fix"]


def test_what_is_no_draft_is_one_sentence(inspect: Run, target: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "config.json").write_text('{"model_type": "bert"}')
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(target / "config.json", bare)
    pickled = tmp_path / "pickled"
    test_eagle.write_published(pickled, test_eagle.LLAMA_3)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    incomplete = published_eagle3.write(
        tmp_path / "incomplete", "authors", {"midlayer.hidden_norm.weight": torch.ones(32), "d2t": torch.zeros(3)}
    )
    lacking = make_eagle_draft(tmp_path / "lacking", target)
    shard(lacking)
    (lacking / "model-00001-of-00002.safetensors").unlink()
    broken = make_eagle_draft(tmp_path / "broken", target)
    (broken / "model.safetensors").write_bytes(b"no weights")
    for folder, sentence in (
        (tmp_path / "empty", "it has no config.json"),
        (foreign, "holds no draft model: none of ours, nor an EAGLE-3 draft in the layout of speculators"),
        (bare, "has no weights"),
        (pickled, "which can run code when it is read; convert it there with"),
        (incomplete, "is an EAGLE-3 draft as its authors publish it, but lacks 'midlayer.self_attn.q_proj.weight'"),
        (lacking, "lacks model-00001-of-00002.safetensors"),
        (broken, "missing or broken"),
        (tmp_path / "nowhere", "neither a directory nor"),
    ):
        code, said = inspect(folder)
        assert code == 2, folder
        assert sentence in said["error"]["detail"]


def test_a_published_draft_is_served_and_its_clients_need_two_files(target: Path, tmp_path: Path) -> None:
    """The weights of heads that lie in a file of their own arrive under the usual name."""
    from common.drafters.load import load_drafter
    from common.models.checkpoint import load_causal_lm
    from common.models.packed import PackedModel
    from common.protocol.views import TreeView
    from server.models.bundles import write_bundle
    from server.models.draft_models import load_exporters
    from server.models.offer import make_offer
    from tests.common.drafters.test_load import site

    made = make_medusa_draft(tmp_path / "made", target)
    heads = tmp_path / "heads"
    heads.mkdir()
    names = {"trunks.{}.0.linear.weight": "{}.0.linear.weight", "trunks.{}.0.linear.bias": "{}.0.linear.bias"}
    names["heads.{}.weight"] = "{}.1.weight"
    ours = load_file(made / "model.safetensors")
    tensors = {theirs.format(n): ours[mine.format(n)] for n in range(3) for mine, theirs in names.items()}
    save_file(tensors, heads / "medusa_lm_head.safetensors")
    (heads / "config.json").write_text('{"medusa_num_heads": 3, "medusa_num_layers": 1}')
    offer = make_offer(str(target), (str(heads),))
    (bundle,) = offer.drafts
    assert {file.path for file in bundle.manifest.files if "/" not in file.path} == {"config.json", "model.safetensors"}
    write_bundle(bundle, offer.card, tmp_path / "out")
    drafter = load_drafter("medusa", site(tmp_path / "out"))
    assert list(drafter.draft(TreeView((11, 45), ()))) == []
    packed = PackedModel(load_causal_lm(target), 32, offer.needs_hidden)
    assert [each.kind for each in load_exporters(offer.draft_models, packed)["heads", 0]] == ["hidden"]
