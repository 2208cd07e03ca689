"""Drafts that need the target's state: the target that they fit, their exporter, and the contents of their bundles."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from common.bundle import TAIL_FOLDER, TOKENIZER_FOLDER, first_damaged
from common.codec import decode
from common.draft_kinds import STATELESS_KINDS
from common.draft_models.directory import EXPORTER_WEIGHTS
from common.draft_models.moa import load_moa
from common.draft_models.tail import load_tail
from common.models.checkpoint import load_causal_lm
from common.models.errors import CheckpointError
from common.models.packed import PackedModel
from common.models.segment import Segment
from common.protocol.messages import StateRequest
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from server.models.bundles import write_bundle
from server.models.draft_models import load_exporters
from server.models.offer import make_offer
from server.models.tails import keep_tail
from server.passes.state_export import ExportRequest
from server.passes.state_maker import StateMaker
from tests.drafts import make_eagle3_draft, make_eagle_draft, make_moa_draft
from tests.families import make_checkpoint


@pytest.fixture
def moa(target: Path, tmp_path: Path) -> Path:
    return make_moa_draft(tmp_path / "deep", target)


@pytest.fixture
def eagle(target: Path, tmp_path: Path) -> Path:
    return make_eagle_draft(tmp_path / "bird", target)


def test_a_bundle_holds_the_clients_half_and_the_targets_end(target: Path, moa: Path, tmp_path: Path) -> None:
    offer = make_offer(str(target), (str(moa),))
    (bundle,) = offer.drafts
    assert (bundle.manifest.draft, bundle.manifest.kind) == ("deep", "moa")
    out = tmp_path / "out"
    write_bundle(bundle, offer.card, out)
    assert first_damaged(out, bundle.manifest) is None
    top = {file.path for file in bundle.manifest.files if "/" not in file.path}
    assert top == {"config.json", "model.safetensors"}
    assert {Path(file.path).parts[0] for file in bundle.manifest.files} == top | {TOKENIZER_FOLDER, TAIL_FOLDER}
    for layers in (0, 1, 3):
        assert load_moa(out, layers)[0].config.depths == (0, 1, 3)
        tail = load_tail(out / TAIL_FOLDER, layers, "cpu", "float64")
        assert len(tail.model.layers) == layers
    whole = load_causal_lm(target, dtype="float64")
    assert torch.equal(tail.model.layers[2].mlp.up_proj.weight, whole.model.layers[2].mlp.up_proj.weight)


def test_the_tail_is_as_deep_as_the_draft_needs(target: Path, tmp_path: Path, eagle: Path) -> None:
    shallow = make_moa_draft(tmp_path / "shallow", target, (0, 1))
    offer = make_offer(str(target), (str(shallow), str(eagle)))
    for bundle, layers in zip(offer.drafts, (1, 0), strict=True):
        config = json.loads(bundle.sources[f"{TAIL_FOLDER}/config.json"].read_text())
        assert config["num_hidden_layers"] == layers
    assert offer.needs_hidden
    assert not make_offer(str(target), (str(shallow),)).needs_hidden


def test_the_target_keeps_what_every_draft_reads(target: Path, tmp_path: Path) -> None:
    made = [make_eagle3_draft(tmp_path / str(number), target, taps=(0, 1, number)) for number in (2, 3)]
    offer = make_offer(str(target), tuple(map(str, made)))
    assert offer.taps == (0, 1, 2, 3)
    assert not offer.needs_hidden
    assert not make_offer(str(target), ()).taps


def test_a_tail_is_written_once_and_whole(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    writes: list[int] = []

    def fail(_: Path, layers: int, out: Path) -> None:
        writes.append(layers)
        (out / "config.json").write_text("half of it")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("server.models.tails.write_tail", fail)
        with pytest.raises(CheckpointError, match="make room there"):
            keep_tail(target, "f", 1, cache)
    kept = keep_tail(target, "f", 1, cache)
    monkeypatch.setattr("server.models.tails.write_tail", fail)
    assert keep_tail(target, "f", 1, cache) == kept
    assert writes == [1]
    assert list((cache / "tails").iterdir()) == [kept]


def test_a_tail_that_an_older_release_kept_is_written_anew(target: Path, tmp_path: Path) -> None:
    older = tmp_path / "tails" / "f-1"
    older.mkdir(parents=True)
    kept = keep_tail(target, "f", 1, tmp_path)
    assert kept != older
    assert len(load_tail(kept, 1, "cpu", "float64").model.layers) == 1


def test_one_that_comes_second_takes_what_is_there(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(_target: Path, _layers: int, out: Path) -> None:
        (out / "config.json").write_text("mine")
        first = out.parent / out.name.partition(".")[0]
        first.mkdir()
        (first / "config.json").write_text("theirs")

    monkeypatch.setattr("server.models.tails.write_tail", overtaken)
    kept = keep_tail(target, "f", 1, tmp_path)
    assert (kept / "config.json").read_text() == "theirs"
    assert list(kept.parent.iterdir()) == [kept]


def test_what_serves_each_draft(target: Path, moa: Path, eagle: Path) -> None:
    offer = make_offer(str(target), (str(moa), str(eagle)))
    model = PackedModel(load_causal_lm(target, dtype="float64"), 64, keep_hidden=offer.needs_hidden)
    exporters = load_exporters(offer.draft_models, model)
    slots = torch.arange(5)
    shapes = {
        key: [(each.kind, tuple(each.export(model.pool, slots).shape)) for each in served]
        for key, served in exporters.items()
    }
    assert shapes == {
        ("deep", 0): [("lsa", (5, 32))],
        ("deep", 1): [("lsa", (5, 32)), ("kv", (5, 1, 2, 16))],
        ("deep", 3): [("lsa", (5, 32)), ("kv", (5, 3, 2, 16))],
        ("bird", 0): [("hidden", (5, 48))],
    }


def edit(draft: Path, **changes: object) -> None:
    path = draft / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"target_fingerprint": "0" * 64}, "trained for another target"),
        ({"outrider_draft": "unheard"}, "kind 'unheard', but known are only: moa, eagle3"),
        ({"depths": [0, 4]}, "the target has 3 layers, so its last 4"),
        ({"hidden": 50}, r"another target \(hidden size 50, this one's is 48\)"),
        ({"lsa": 7}, "is broken"),
    ],
)
def test_a_draft_that_does_not_fit_is_refused(
    target: Path, moa: Path, changes: dict[str, object], sentence: str
) -> None:
    edit(moa, **changes)
    with pytest.raises(CheckpointError, match=sentence):
        make_offer(str(target), (str(moa),))


def test_a_draft_for_another_size_of_target_is_refused(tmp_path: Path, target: Path, eagle: Path) -> None:
    other = make_checkpoint(tmp_path / "other", "llama", hidden=24)
    edit(eagle, target_fingerprint=make_offer(str(other), ()).card.fingerprint)
    with pytest.raises(CheckpointError, match=r"another target \(hidden size 48, this one's is 24\)"):
        make_offer(str(other), (str(eagle),))


def test_a_draft_without_the_servers_half_is_refused(target: Path, moa: Path) -> None:
    (moa / EXPORTER_WEIGHTS).unlink()
    offer = make_offer(str(target), (str(moa),))
    with pytest.raises(CheckpointError, match="missing or broken"):
        load_exporters(offer.draft_models, PackedModel(load_causal_lm(target), 8))


def test_a_shipped_family_brings_the_drafts_that_are_there(
    target: Path, draft: Path, moa: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from common.models import shipped

    for folder, name in ((target, "target"), (draft, "independent"), (moa, "moa")):
        shutil.copytree(folder, tmp_path / name)
    monkeypatch.setitem(shipped.FAMILIES, "demo", shipped.ModelFolder(tmp_path))
    offer = make_offer("demo", ())
    assert [bundle.manifest.draft for bundle in offer.drafts] == ["moa", "independent"]
    assert [each.name for each in offer.draft_models] == ["moa", "independent", *STATELESS_KINDS]


@pytest.mark.cuda
def test_state_made_on_cuda_equals_that_made_on_the_cpu(target: Path, moa: Path, eagle: Path) -> None:
    offer = make_offer(str(target), (str(moa), str(eagle)))
    slots = np.arange(40)
    requests = [
        ExportRequest(StateRequest(draft, layers, "float16"), kind, slots)
        for draft, layers, kind in (("deep", 0, "lsa"), ("deep", 3, "kv"), ("bird", 0, "hidden"))
    ]
    made: list[list[torch.Tensor]] = []
    for device in ("cpu", "cuda"):
        model = PackedModel(load_causal_lm(target, device, "float64"), 64, keep_hidden=True)
        model.forward([Segment(range(5, 45), slots=slots, parents=range(-1, 39))])
        maker = StateMaker(model.pool, load_exporters(offer.draft_models, model))
        shapes = [
            kind.shape
            for request in requests
            for kind in maker.kinds(request.state_request)
            if kind.name == request.kind
        ]
        payloads = maker.make(requests)
        assert all(payloads)
        made.append(
            [decode(payload or b"", "float16", (40, *shape)) for payload, shape in zip(payloads, shapes, strict=True)]
        )
    for mine, theirs in zip(*made, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)


def test_keys_and_values_of_different_widths_are_no_draft_state(tmp_path):
    target = make_family_checkpoint(tmp_path / "target", FAMILIES["deepseek-v3"])
    offer = make_offer(str(target), (str(make_moa_draft(tmp_path / "moa", target, (0,))),))
    with pytest.raises(CheckpointError, match=r"the draft model moa is made of .* which have different widths"):
        load_exporters(offer.draft_models, PackedModel(load_causal_lm(target), 8))
