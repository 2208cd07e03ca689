"""A server offers its drafts in int8 and int4 too: made once, fetched and resumed as the others, and unseen by clients
that know no weights modes."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from client.assembly import client_for
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.errors import BundleError
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.address import parse_address
from common.bundle import BundleManifest, describe_file, first_damaged, make_manifest
from common.protocol.messages import Settings
from common.rpc.convert import description_frame
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.stub import Connection, connect
from common.weight_only.files import mode_of
from common.weight_only.modes import AS_IS, QUANTISED
from server.models.bundles import OfferedBundle
from server.models.offer import make_offer
from server.models.quantised_bundles import quantise_bundles
from tests.drafts import make_moa_draft
from tests.server.harness import options_for, running
from tests.server.reference import Reference

PROMPT = list(range(40, 100))
SETTINGS = Settings(20, idle="patient")


async def fetch(connection: Connection, manifest: BundleManifest, path: str, offset: int = 0) -> bytes:
    return b"".join([chunk async for chunk in connection.fetch(FileRequest(manifest.id, path, offset))])


async def test_each_draft_is_offered_in_each_mode_and_can_be_resumed(target: Path, draft: Path, tmp_path: Path) -> None:
    async with running(options_for(target, draft)) as server, connect(server.address) as connection:
        said = await connection.describe()
        assert [(each.draft, each.weights) for each in said.bundles] == [("small", AS_IS), ("lookup", AS_IS)]
        assert [(each.draft, each.weights) for each in said.quantised] == [("small", mode) for mode in QUANTISED]
        for manifest in said.quantised:
            for file in manifest.files:
                whole = await fetch(connection, manifest, file.path)
                assert await fetch(connection, manifest, file.path, file.size // 2) == whole[file.size // 2 :]
                destination = tmp_path / manifest.weights / file.path
                destination.parent.mkdir(parents=True, exist_ok=True)
                destination.write_bytes(whole)
            assert first_damaged(tmp_path / manifest.weights, manifest) is None
            assert mode_of(tmp_path / manifest.weights / "model.safetensors") == manifest.weights
    sizes = [sum(file.size for file in each.files) for each in (said.bundles[0], *said.quantised)]
    assert sizes == sorted(sizes, reverse=True)


def test_the_weights_are_part_of_a_bundles_id() -> None:
    ids = {make_manifest("d", "moa", "f", (), mode).id for mode in (AS_IS, *QUANTISED)}
    assert len(ids) == 3
    assert make_manifest("d", "moa", "f", ()).id in ids


def test_an_older_client_sees_what_it_always_saw(target: Path, draft: Path) -> None:
    offer = make_offer(str(target), (str(draft),)).with_quantised()
    assert offer.bundles == (offer.drafts[0], offer.lookup)
    assert [each.manifest.weights for each in offer.bundles] == [AS_IS, AS_IS]
    assert {each.manifest.weights for each in offer.quantised} == {*QUANTISED}


def test_files_are_quantised_once(target: Path, draft: Path, tmp_path: Path) -> None:
    offer = make_offer(str(target), (str(draft),))
    first = quantise_bundles(offer.drafts, offer.card, tmp_path)
    written = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.safetensors")}
    assert len(written) == len(QUANTISED)
    assert quantise_bundles(offer.drafts, offer.card, tmp_path) == first
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.safetensors")} == written


def test_where_nothing_can_be_kept_drafts_are_offered_as_they_are(
    target: Path, draft: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    offer = make_offer(str(target), (str(draft),))
    (tmp_path / "file").write_text("no folder")
    assert quantise_bundles(offer.drafts, offer.card, tmp_path / "file") == ()
    assert "no quantised bundles are offered" in caplog.text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn])
def test_a_draft_that_is_stored_in_few_bits_is_offered_as_it_is(
    target: Path, draft: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, dtype: torch.dtype
) -> None:
    """By its configuration or by its numbers; the others are quantised still."""
    few, settings = tmp_path / "few", {"quantization_config": {"quant_method": "fp8"}}
    few.mkdir()
    save_file({"lm_head.weight": torch.zeros(64, 64).to(dtype)}, few / "model.safetensors")
    (few / "config.json").write_text(json.dumps(settings if dtype == torch.float32 else {}))
    offer = make_offer(str(target), (str(draft),))
    sources = {name: few / name for name in ("config.json", "model.safetensors")}
    files = [describe_file(path, source) for path, source in sources.items()]
    stored = OfferedBundle(make_manifest("few", "independent", offer.card.fingerprint, files), sources)
    made = quantise_bundles((stored, *offer.drafts), offer.card, tmp_path / "cache")
    assert [(each.manifest.draft, each.manifest.weights) for each in made] == [("small", mode) for mode in QUANTISED]
    assert "the draft few is offered with its weights as they are alone" in caplog.text


def test_what_is_quantised_is_logged_once(
    target: Path, draft: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = make_moa_draft(tmp_path / "moa", target)
    offer = make_offer(str(target), (str(draft), str(other)))
    with caplog.at_level("INFO", "server.observe.log"):
        for _ in range(2):
            quantise_bundles(offer.drafts, offer.card, tmp_path / "cache")
    assert caplog.text.count("quantising") == caplog.text.count(f"quantising drafts of {target.name} for clients") == 1


@pytest.mark.parametrize("mode", QUANTISED)
@pytest.mark.parametrize("layers", [0, 1])
async def test_answers_are_the_targets_own_whatever_the_weights(
    target: Path, tmp_path: Path, mode: str, layers: int
) -> None:
    moa = make_moa_draft(tmp_path / "moa", target, (0, 1))
    truth = tuple(Reference(target).answer(PROMPT, 20))
    choice = DraftChoice("moa", layers=layers, weights=mode)
    async with running(options_for(target, moa)) as server:
        access = Access(parse_address(server.address))
        async with (
            client_for(access, choice, tmp_path / "cache", download_bar) as client,
            client.converse(STREAM, client.load_drafter()) as conversation,
        ):
            assert client.manifest.weights == mode
            answer = await conversation.answer(PROMPT, SETTINGS, lambda committed, provisional: None)
    assert answer.tokens == truth
    assert answer.stats.provisional_tokens > 0


async def test_a_server_that_offers_none_sends_the_bundle_as_it_is_and_the_client_quantises_it(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moa = make_moa_draft(tmp_path / "moa", target, (0,))
    monkeypatch.setattr("server.models.offer.quantise_bundles", lambda *_: ())
    truth = tuple(Reference(target).answer(PROMPT, 20))
    async with running(options_for(target, moa)) as server:
        access = Access(parse_address(server.address))
        async with (
            client_for(access, DraftChoice("moa", weights="int4"), tmp_path / "cache", download_bar) as client,
            client.converse(STREAM, client.load_drafter()) as conversation,
        ):
            assert client.manifest.weights == AS_IS
            answer = await conversation.answer(PROMPT, SETTINGS, lambda committed, provisional: None)
            quantised = client.bundle / "int4"
    assert answer.tokens == truth
    assert mode_of(quantised / "tail" / "model.safetensors") == "int4"


async def test_a_damaged_byte_is_noticed(target: Path, draft: Path, tmp_path: Path) -> None:
    async with running(options_for(target, draft)) as server:
        access, choice = Access(parse_address(server.address)), DraftChoice("small", weights="int8")
        async with client_for(access, choice, tmp_path, download_bar) as client:
            file = client.bundle / "model.safetensors"
        content = bytearray(file.read_bytes())
        content[-100] ^= 1
        file.write_bytes(content)
        with pytest.raises(BundleError, match=r"model\.safetensors in the bundle is damaged"):
            async with client_for(access, choice, tmp_path, download_bar):
                raise AssertionError("it was taken")


def test_a_description_tells_the_mode_only_where_there_is_one(target: Path, draft: Path) -> None:
    offer = make_offer(str(target), (str(draft),)).with_quantised()
    bundles, quantised = (tuple(each.manifest for each in some) for some in (offer.bundles, offer.quantised))
    said = ServerDescription(1, "r", "m", "f", 3, 4, 5, (), ("greedy",), ("eager",), bundles, quantised)
    frame = description_frame(said)
    assert [bundle.weights for bundle in frame.bundles] == ["", ""]
    assert [bundle.weights for bundle in frame.quantised] == [*QUANTISED]
