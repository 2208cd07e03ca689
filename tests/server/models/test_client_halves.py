"""What a bundle has of a published draft: what a client computes with, whole, and none of the server's or target's."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from common.draft_models.eagle import load_eagle
from common.draft_models.eagle3 import load_eagle3, load_fuse
from common.draft_models.medusa import load_medusa
from common.draft_models.tail import write_tail
from common.models.errors import CheckpointError
from server.models.client_halves import keep_client_half
from tests.common.draft_models import published_eagle3, test_eagle, test_medusa
from tests.drafts import make_eagle3_draft
from tests.families import make_checkpoint
from tests.sharded import shard


@pytest.fixture(scope="module")
def tail(tmp_path_factory):
    """Of a target with the sizes of the published drafts here."""
    folder = tmp_path_factory.mktemp("tail")
    target = make_checkpoint(folder / "target", "llama", vocab=300)
    write_tail(target, 0, folder / "tail")
    return folder / "tail"


def same(one, other):
    left, right = one.state_dict(), other.state_dict()
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("layout", published_eagle3.LAYOUTS)
@pytest.mark.parametrize("sharded", [False, True], ids=["one file", "shards"])
def test_what_fuses_stays_on_the_server(tmp_path, tail, layout, sharded):
    tensors = published_eagle3.tensors_of(layout, norm_all=True, norm_each=True, embedding=True, layers=2)
    draft = published_eagle3.write(tmp_path / "draft", layout, tensors, {"num_hidden_layers": 2})
    if sharded:
        shard(draft)
    half = keep_client_half(draft, tail, tmp_path / "cache")
    assert {file.name for file in half.iterdir()} == {"config.json", "model.safetensors"}
    kept = load_file(half / "model.safetensors")
    server = {"fc.weight", "input_norm.weight", *(f"fc_norm.{tap}.weight" for tap in range(3))}
    assert kept.keys() == tensors.keys() - server
    assert all(torch.equal(kept[name], tensors[name]) for name in kept)
    (whole, tokens), (client, its_tokens) = load_eagle3(draft), load_eagle3(half)
    same(whole, client)
    assert whole.config == client.config
    assert torch.equal(tokens, its_tokens)
    with pytest.raises(CheckpointError, match=r"lacks 'fc\.weight'"):
        load_fuse(half)


def test_an_embedding_that_is_the_targets_does_not_travel_twice(tmp_path, tail):
    table = load_file(tail / "model.safetensors")["model.embed_tokens.weight"]
    tensors = published_eagle3.tensors_of("authors") | {"embed_tokens.weight": table[:60, :32].contiguous()}
    other = published_eagle3.write(tmp_path / "other", "authors", tensors)
    assert "embed_tokens.weight" in load_file(keep_client_half(other, tail, tmp_path) / "model.safetensors")
    tensors["embed_tokens.weight"] = table
    same_table = published_eagle3.write(tmp_path / "same", "authors", tensors)
    assert "embed_tokens.weight" not in load_file(keep_client_half(same_table, tail, tmp_path) / "model.safetensors")


def test_a_table_that_its_target_scales_travels(tmp_path, tail):
    """Gemma multiplies what it looks up, which the draft's own embedding does not."""
    scaled = tmp_path / "gemma"
    scaled.mkdir()
    save_file(load_file(tail / "model.safetensors"), scaled / "model.safetensors")
    (scaled / "config.json").write_text(json.dumps({"model_type": "gemma"}))
    table = load_file(tail / "model.safetensors")["model.embed_tokens.weight"]
    tensors = published_eagle3.tensors_of("authors") | {"embed_tokens.weight": table}
    draft = published_eagle3.write(tmp_path / "draft", "authors", tensors)
    assert "embed_tokens.weight" in load_file(keep_client_half(draft, scaled, tmp_path) / "model.safetensors")


def test_an_unused_embedding_does_not_travel(tmp_path, tail):
    tensors = test_eagle.write_published(tmp_path / "draft", test_eagle.LLAMA_3)
    half = keep_client_half(tmp_path / "draft", tail, tmp_path / "cache")
    assert load_file(half / "model.safetensors").keys() == tensors.keys() - {"embed_tokens.weight"}
    same(load_eagle(tmp_path / "draft")[0], load_eagle(half)[0])


def test_of_a_whole_model_only_the_heads_travel(tmp_path, tail):
    tensors = test_medusa.write_published(tmp_path / "draft", 2, 1, prefix="medusa_head.", file="model.safetensors")
    save_file(tensors | {"lm_head.weight": torch.zeros(20, 8)}, tmp_path / "draft" / "model.safetensors")
    half = keep_client_half(tmp_path / "draft", tail, tmp_path / "cache")
    assert load_file(half / "model.safetensors").keys() == tensors.keys()
    same(load_medusa(tmp_path / "draft"), load_medusa(half))


def test_it_is_written_once_and_again_where_the_draft_changed(tmp_path, tail):
    """Equal drafts make equal bytes, so that a download resumes after the server's cache is gone."""
    tensors = published_eagle3.tensors_of("authors")
    draft = published_eagle3.write(tmp_path / "draft", "authors", tensors)
    half = keep_client_half(draft, tail, tmp_path / "cache")
    written = (half / "model.safetensors").stat().st_mtime_ns
    assert keep_client_half(draft, tail, tmp_path / "cache") == half
    assert (half / "model.safetensors").stat().st_mtime_ns == written
    again = keep_client_half(draft, tail, tmp_path / "another")
    for name in ("config.json", "model.safetensors"):
        assert (again / name).read_bytes() == (half / name).read_bytes()
    save_file(tensors | {"norm.weight": tensors["norm.weight"] * 2}, draft / "model.safetensors")
    assert keep_client_half(draft, tail, tmp_path / "cache") != half


def test_two_drafts_that_differ_at_their_ends_are_two(tmp_path, tail):
    """As one whose head was trimmed anew, to tokens of which the most frequent stay."""
    tensors = published_eagle3.tensors_of("authors", head=False, trimmed=False)
    tensors["lm_head.weight"] = torch.zeros(1500, published_eagle3.HIDDEN)
    for last in (1600, 1700):
        kept = torch.tensor([*range(1499), last])
        maps = {"d2t": kept - torch.arange(1500), "t2d": torch.isin(torch.arange(2000), kept)}
        folder = tmp_path / str(last)
        draft = published_eagle3.write(folder, "authors", tensors | maps, {"vocab_size": 2000})
        assert load_eagle3(keep_client_half(draft, tail, tmp_path / "cache"))[1].tolist() == kept.tolist()


def test_a_draft_of_ours_is_split_already(tmp_path, tail):
    draft = make_eagle3_draft(tmp_path / "draft", tail.parent / "target")
    assert keep_client_half(draft, tail, tmp_path / "cache") == draft
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_is_told(tmp_path, tail):
    draft = published_eagle3.write(tmp_path / "draft", "authors", published_eagle3.tensors_of("authors"))
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(CheckpointError, match=r"what clients need of a draft model cannot be written to .*; make room"):
        keep_client_half(draft, tail, tmp_path / "cache")
