"""Bundles: the files of each, resumable downloads, and no access to files outside the manifest."""

import errno
import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, OPTConfig, PreTrainedConfig

from client.cache.bundles import is_complete, pull
from client.cache.tokenizers import tokenizer_of
from common.bundle import TOKENIZER_FOLDER, first_damaged, read_bundle_file
from common.draft_kinds import STATELESS_KINDS
from common.models.checkpoint import load_causal_lm, load_tokenizer
from common.models.errors import CheckpointError
from common.protocol.errors import MisuseError, PeerError
from common.rpc.description import FileRequest
from common.rpc.stub import connect
from server.models.bundles import CHUNK_BYTES, write_bundle
from server.models.fit import check_fit, read_target
from server.models.offer import make_offer
from tests.families import make_checkpoint, make_tokenizer
from tests.server.harness import options_for, running
from tests.sharded import shard


async def test_every_file_can_be_fetched_and_resumed(target: Path, draft: Path, tmp_path: Path) -> None:
    async with running(options_for(target, draft)) as server, connect(server.address) as connection:
        small, lookup = (await connection.describe()).bundles
        assert (small.draft, small.kind, lookup.draft, lookup.kind) == ("small", "independent", "lookup", "lookup")
        for file in small.files:
            whole = [chunk async for chunk in connection.fetch(FileRequest(small.id, file.path, 0))]
            assert all(len(chunk) <= CHUNK_BYTES for chunk in whole)
            rest = [chunk async for chunk in connection.fetch(FileRequest(small.id, file.path, file.size // 2))]
            content = b"".join(whole)
            assert b"".join(rest) == content[file.size // 2 :]
            destination = tmp_path / file.path
            destination.parent.mkdir(exist_ok=True)
            destination.write_bytes(content)
    assert first_damaged(tmp_path, small) is None
    assert load_causal_lm(tmp_path).config.num_hidden_layers == 1
    assert load_tokenizer(tmp_path / TOKENIZER_FOLDER).get_vocab() == load_tokenizer(target).get_vocab()


@pytest.mark.parametrize("default", ["chat_template.jinja", "additional_chat_templates/default.jinja"])
async def test_clients_render_requests_with_and_without_tools_as_the_target_does(
    target: Path, tmp_path: Path, default: str
) -> None:
    copy = shutil.copytree(target, tmp_path / "target")
    theirs = load_tokenizer(copy)
    theirs.chat_template = {"default": "{{ messages[0].content }}", "tool_use": "{{ tools | tojson }} use"}
    theirs.save_pretrained(copy)
    (copy / "chat_template.jinja").rename(copy / default)
    async with running(options_for(copy)) as server, connect(server.address) as connection:
        said = await connection.describe()
        (lookup,) = said.bundles
        directory = await pull(connection, said, lookup, tmp_path / "cache", lambda count: None)
    assert is_complete(tmp_path / "cache", lookup)
    ours, theirs = tokenizer_of(tmp_path / "cache", lookup, directory), load_tokenizer(copy)
    function = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
    for tools in (None, [{"type": "function", "function": function}]):
        asked = {"tools": tools, "add_generation_prompt": True, "tokenize": False, "return_dict": False}
        rendered = theirs.apply_chat_template([{"role": "user", "content": "Hi"}], **asked)
        assert ours.apply_chat_template([{"role": "user", "content": "Hi"}], **asked) == rendered
        assert ("look" in rendered) == bool(tools)


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "tokenizer/../config.json", "", "absent"])
async def test_nothing_else_can_be_fetched(target: Path, path: str) -> None:
    async with running(options_for(target)) as server, connect(server.address) as connection:
        (lookup,) = (await connection.describe()).bundles
        with pytest.raises(PeerError, match="has no file"):
            await anext(connection.fetch(FileRequest(lookup.id, path, 0)))
        with pytest.raises(PeerError, match="no such bundle"):
            await anext(connection.fetch(FileRequest("other", "tokenizer/tokenizer.json", 0)))
        with pytest.raises(PeerError, match="ends at"):
            await anext(connection.fetch(FileRequest(lookup.id, "tokenizer/tokenizer.json", 2**64 - 1)))


def test_a_bundle_is_written_as_a_directory(target: Path, draft: Path, tmp_path: Path) -> None:
    offer = make_offer(str(target), (str(draft),))
    write_bundle(offer.drafts[0], offer.card, tmp_path / "out")
    bundle = read_bundle_file(tmp_path / "out")
    assert bundle.target == offer.card
    assert bundle.manifest == offer.drafts[0].manifest
    assert first_damaged(tmp_path / "out", bundle.manifest) is None
    with pytest.raises(MisuseError, match="not an empty directory"):
        write_bundle(offer.drafts[0], offer.card, tmp_path / "out")


@pytest.mark.parametrize("where", ["new", "empty", "link", "here"])
def test_a_bundle_that_a_full_disk_cuts_short_can_be_written_by_the_same_command(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    offer, out = make_offer(str(target), ()), tmp_path / "out"
    match where:
        case "empty":
            out.mkdir()
        case "link":
            (tmp_path / "elsewhere").mkdir()
            out.symlink_to(tmp_path / "elsewhere")
        case "here":
            out.mkdir()
            monkeypatch.chdir(out)
            out = Path()

    def fill(*_: object) -> None:
        assert any(out.iterdir())
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("server.models.bundles.write_bundle_file", fill)
        with pytest.raises(MisuseError, match="No space left on device"):
            write_bundle(offer.lookup, offer.card, out)
    assert out.exists() == (where != "new")
    write_bundle(offer.lookup, offer.card, out)
    assert first_damaged(out, offer.lookup.manifest) is None


def test_a_draft_with_another_tokenizer_is_refused(target: Path, foreign_draft: Path) -> None:
    with pytest.raises(MisuseError, match="another tokenizer"):
        make_offer(str(target), (str(foreign_draft),))


def test_a_draft_of_an_unknown_architecture_is_refused_before_any_client_fetches_it(
    target: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(target, tmp_path / "draft")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "model_type": "sparrow"}))
    with pytest.raises(MisuseError, match=r"the model type 'sparrow' in .* is unknown to transformers"):
        make_offer(str(target), (str(copy),))


def test_a_bundle_has_no_weights_twice(target: Path, draft: Path, tmp_path: Path) -> None:
    """Some repositories hold the same ones again under another name, as Mistral's."""
    copy = shutil.copytree(draft, tmp_path / draft.name)
    shutil.copyfile(copy / "model.safetensors", copy / "consolidated.safetensors")
    (plain,) = make_offer(str(target), (str(draft),)).drafts
    (offered,) = make_offer(str(target), (str(copy),)).drafts
    assert offered.manifest == plain.manifest


@pytest.mark.parametrize("fault", ["has no weights", "lacks model-00001", "is not a whole safetensors file"])
def test_a_draft_without_all_of_its_weights_is_refused_before_any_client_fetches_it(
    target: Path, draft: Path, tmp_path: Path, fault: str
) -> None:
    copy = shutil.copytree(draft, tmp_path / "draft")
    shard(copy)
    assert make_offer(str(target), (str(copy),)).drafts
    first, last = sorted(copy.glob("*.safetensors"))
    match fault:
        case "has no weights":
            (copy / "model.safetensors.index.json").unlink()
        case "lacks model-00001":
            first.unlink()
        case _:
            last.write_bytes(last.read_bytes()[:-1])
    for refused in (
        lambda: make_offer(str(target), (str(copy),)),
        lambda: check_fit(str(copy), read_target(str(target))),
    ):
        with pytest.raises(CheckpointError, match=fault):
            refused()


def test_a_draft_with_weights_in_folders_is_refused(target: Path, draft: Path, tmp_path: Path) -> None:
    """A bundle is one folder: of two files of one name clients would get one."""
    copy = shutil.copytree(draft, tmp_path / "draft")
    shard(copy)
    index = copy / "model.safetensors.index.json"
    text = index.read_text()
    for number, file in enumerate(sorted(copy.glob("*.safetensors"))):
        (copy / str(number)).mkdir()
        file.rename(copy / str(number) / "model.safetensors")
        text = text.replace(file.name, f"{number}/model.safetensors")
    index.write_text(text)
    with pytest.raises(MisuseError, match=r"holds model\.safetensors in a folder of its own"):
        make_offer(str(target), (str(copy),))


def test_a_draft_must_know_every_token_and_may_be_padded_further(target: Path, tmp_path: Path) -> None:
    for vocab in (280, 320):
        make_tokenizer(300).save_pretrained(make_checkpoint(tmp_path / str(vocab), "qwen3", layers=1, vocab=vocab))
    with pytest.raises(MisuseError, match="knows only 280 of the target's 300 tokens"):
        make_offer(str(target), (str(tmp_path / "280"),))
    (padded,) = make_offer(str(target), (str(tmp_path / "320"),)).drafts
    assert padded.manifest.kind == "independent"


def test_a_draft_need_not_know_tokens_that_the_target_does_not_know(tmp_path: Path) -> None:
    """As of Gemma 3, whose 270M drafts for its 1B: their tokenizer has a token more than they have logits."""
    names = ("big", "as-large", "smaller")
    big, as_large, smaller = (
        make_checkpoint(tmp_path / name, "llama", layers=1, vocab=vocab, dtype=torch.float32)
        for name, vocab in zip(names, (299, 299, 298), strict=True)
    )
    for each in (big, as_large, smaller):
        make_tokenizer(300).save_pretrained(each)
    (offered,) = make_offer(str(big), (str(as_large),)).drafts
    assert offered.manifest.kind == "independent"
    check_fit(str(as_large), read_target(str(big)))
    for refuse in (
        lambda: make_offer(str(big), (str(smaller),)),
        lambda: check_fit(str(smaller), read_target(str(big))),
    ):
        with pytest.raises(MisuseError, match="knows only 298 of the target's 299 tokens"):
            refuse()


@pytest.mark.parametrize("scaling", ["longrope", "dynamic"])
def test_a_draft_whose_frequencies_change_within_the_targets_context_is_refused(
    target: Path, tmp_path: Path, scaling: str
) -> None:
    copy = shutil.copytree(target, tmp_path / "draft")
    config = json.loads((copy / "config.json").read_text())
    config["rope_parameters"] = {"rope_theta": 10_000.0, "rope_type": scaling, "factor": 4.0}
    if scaling == "longrope":
        half = config["head_dim"] // 2
        config["rope_parameters"] |= {"short_factor": [1.0] * half, "long_factor": [8.0] * half}

    def bounded_by(bound: int) -> str:
        if scaling == "longrope":
            config["rope_parameters"]["original_max_position_embeddings"] = bound
        else:
            config["max_position_embeddings"] = bound
        (copy / "config.json").write_text(json.dumps(config))
        return str(copy)

    context = make_offer(str(target), ()).card.context
    with pytest.raises(MisuseError, match=f"scales positions beyond {context - 1} by the longest sequence of a pass"):
        make_offer(str(target), (bounded_by(context - 1),))
    (draft,) = make_offer(str(target), (bounded_by(context),)).drafts
    assert draft.manifest.kind == "independent"
    with pytest.raises(MisuseError, match="scales positions beyond"):
        check_fit(bounded_by(context - 1), read_target(str(target)))
    config["rope_parameters"] = {"rope_theta": 10_000.0, "rope_type": "default"}
    config["max_position_embeddings"] = context - 1
    (copy / "config.json").write_text(json.dumps(config))
    assert make_offer(str(target), (str(copy),)).drafts  # it only drafts worse there


@pytest.mark.parametrize("family", [GPT2Config, OPTConfig])
def test_a_draft_whose_table_of_positions_ends_within_the_targets_context_is_refused(
    target: Path, tmp_path: Path, family: type[PreTrainedConfig]
) -> None:
    context = make_offer(str(target), ()).card.context

    def of_positions(count: int) -> str:
        folder = tmp_path / str(count)
        shape = {"hidden_size": 12, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 300}
        config = family(**shape, max_position_embeddings=count, bos_token_id=0, eos_token_id=0)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        load_tokenizer(target).save_pretrained(folder)
        return str(folder)

    with pytest.raises(MisuseError, match=f"has a table of {context - 1} positions, which ends within"):
        make_offer(str(target), (of_positions(context - 1),))
    with pytest.raises(MisuseError, match="has a table of"):
        check_fit(of_positions(context - 1), read_target(str(target)))
    (draft,) = make_offer(str(target), (of_positions(context),)).drafts
    assert draft.manifest.kind == "independent"


def test_files_are_hashed_once(target: Path) -> None:
    offer = make_offer(str(target), ())
    assert offer.lookup is offer.lookup


def test_two_drafts_of_one_name_are_refused(target: Path, draft: Path, tmp_path: Path) -> None:
    twin = make_checkpoint(tmp_path / draft.name, "qwen3", layers=1, seed=6)
    with pytest.raises(MisuseError, match="named 'small'"):
        make_offer(str(target), (str(draft), str(twin)))


@pytest.mark.parametrize("kind", STATELESS_KINDS)
def test_a_draft_with_the_name_of_a_kind_without_weights_is_refused(target: Path, tmp_path: Path, kind: str) -> None:
    draft = make_checkpoint(tmp_path / kind, "qwen3", layers=1)
    with pytest.raises(MisuseError, match=f"named '{kind}'"):
        make_offer(str(target), (str(draft),))


def test_what_is_no_checkpoint_is_refused(target: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        make_offer(str(tmp_path), ())
    bare = make_checkpoint(tmp_path / "bare", "llama", layers=1)
    (bare / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match="no tokenizer"):
        make_offer(str(bare), ())
    with pytest.raises(CheckpointError, match="no tokenizer"):
        make_offer(str(target), (str(bare),))
