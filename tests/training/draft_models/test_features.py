"""The target's features: equal to separate forwards, on every family, with padding and sliding windows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import DynamicCache

from common.models import source as hub_source
from common.models.errors import CheckpointError
from common.models.packed import PackedModel
from server.models.target_card import read_card
from tests.families import FAMILIES, SLIDING_WINDOW, make_checkpoint
from training.draft_models.features import FrozenTarget, features, load_target
from training.draft_models.recipe import Batch, FeatureNeeds, Features

LENGTHS = (40, 23)
EVERYTHING = FeatureNeeds(key_values=True, hidden=(0, 1, 3), logits=True)


def load(tmp_path: Path, family: str) -> FrozenTarget:
    return load_target(str(make_checkpoint(tmp_path / family, family)), torch.device("cpu"), "float64")


def make_batch() -> Batch:
    """Two rows, one padded, both longer than the tests' sliding windows."""
    assert min(LENGTHS) > SLIDING_WINDOW
    ids = torch.zeros(2, max(LENGTHS), dtype=torch.int64)
    learn = torch.zeros_like(ids, dtype=torch.bool)
    generator = torch.Generator().manual_seed(5)
    for row, length in enumerate(LENGTHS):
        ids[row, :length] = torch.randint(2, 258, (length,), generator=generator)
        learn[row, length // 2 : length - 1] = True
    return Batch(ids, learn, torch.tensor(LENGTHS))


@pytest.mark.parametrize("family", FAMILIES)
def test_features_equal_a_forward_of_each_row_alone(tmp_path: Path, family: str) -> None:
    target, batch = load(tmp_path, family), make_batch()
    found = features(target, batch, EVERYTHING)
    assert found.key_values is not None
    assert found.logits is not None
    assert found.key_values.shape == (3, 2, 40, 2 * target.key_value_size)
    logits = []
    for row, length in enumerate(LENGTHS):
        cache = DynamicCache()
        with torch.no_grad():
            alone = target.model(
                input_ids=batch.ids[row : row + 1, :length], past_key_values=cache, output_hidden_states=True
            )
        for n in EVERYTHING.hidden:
            torch.testing.assert_close(found.hidden[n][row, :length], alone.hidden_states[-1 - n][0])
        for layer in range(3):
            keys, values = found.key_values[layer, row, :length].unflatten(-1, (2, 2, -1)).unbind(1)
            torch.testing.assert_close(keys, cache.layers[layer].keys[0].transpose(0, 1))
            torch.testing.assert_close(values, cache.layers[layer].values[0].transpose(0, 1))
        logits.append(alone.logits[0][batch.learn[row, :length]])
    torch.testing.assert_close(found.logits, torch.cat(logits))


def test_hidden_states_count_from_the_end(tmp_path: Path) -> None:
    target, batch = load(tmp_path, "llama"), make_batch()
    found = features(target, batch, FeatureNeeds(hidden=(0, 1, 3)))
    assert torch.equal(found.hidden[3], target.embedding(batch.ids))
    with torch.no_grad():
        normed = target.model.model.norm(found.hidden[1])
    assert not torch.allclose(normed, found.hidden[0]), "n = 1 comes before the last layer"
    assert found.key_values is None
    assert found.logits is None


def test_what_leaves_the_last_layer_comes_before_the_final_norm(tmp_path: Path) -> None:
    target, batch = load(tmp_path, "llama"), make_batch()
    found = features(target, batch, FeatureNeeds(hidden=(0,), unnormed=True))
    assert found.unnormed is not None
    with torch.no_grad():
        assert torch.equal(target.model.model.norm(found.unnormed), found.hidden[0])
    assert features(target, batch, FeatureNeeds(hidden=(0,))).unnormed is None


def test_a_target_that_names_no_longest_context_is_refused(tmp_path: Path) -> None:
    nameless = SimpleNamespace(config=SimpleNamespace(model_type="bloom"))
    target = replace(load(tmp_path, "llama"), model=nameless)
    with pytest.raises(CheckpointError, match="names no longest context"):
        _ = target.context


def test_no_need_costs_no_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = load(tmp_path, "llama")
    monkeypatch.setattr(target.model, "model", None)
    assert features(target, make_batch(), FeatureNeeds()) == Features()


def test_the_target_gets_its_attention_back(tmp_path: Path) -> None:
    target, batch = load(tmp_path, "llama"), make_batch()
    before = features(target, batch, EVERYTHING)
    with target.attention_kept():
        PackedModel(target.model, capacity=8)
        with pytest.raises(TypeError):
            features(target, batch, EVERYTHING)
    assert torch.equal(features(target, batch, EVERYTHING).hidden[0], before.hidden[0])


def test_a_batch_knows_its_answers_and_targets() -> None:
    ids = torch.tensor([[5, 6, 7, 8], [5, 9, 0, 0]])
    learn = torch.tensor([[False, True, True, False], [True, False, False, False]])
    batch = Batch(ids, learn, torch.tensor([4, 2]))
    assert batch.targets.tolist() == [7, 8, 9]
    assert ids[batch.answers].tolist() == [7, 8, 9]
    assert batch.filled.tolist() == [[True] * 4, [True, True, False, False]]


@pytest.mark.parametrize(
    ("in_config", "in_generation"), [(0, {"eos_token_id": [7, 9]}), (7, {"eos_token_id": 9}), (7, {}), (7, None)]
)
def test_answers_end_where_the_server_ends_them(
    tmp_path: Path, in_config: int, in_generation: dict[str, object] | None
) -> None:
    path = make_checkpoint(tmp_path / "target", "llama")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "eos_token_id": in_config}))
    (path / "generation_config.json").unlink()
    if in_generation is not None:
        (path / "generation_config.json").write_text(json.dumps(in_generation))
    target = load_target(str(path), torch.device("cpu"), "float32")
    assert sorted(target.end_tokens) == list(read_card("target", path, target.tokenizer).end_tokens)
    assert target.tokenizer.eos_token_id in target.end_tokens


def test_a_target_of_the_hub_has_its_id_for_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder in which the hub's client keeps it is named by a commit."""
    kept = make_checkpoint(tmp_path / "snapshots" / "0a1b2c3d", "llama")
    monkeypatch.setattr(hub_source, "_fetch", lambda hub_id, with_weights: kept)
    cpu = torch.device("cpu")
    assert load_target("someone/model", cpu, "float32").name == "someone/model"
    kept.rename(tmp_path / "model")
    assert load_target(str(tmp_path / "model"), cpu, "float32").name == "model"
