"""`outrider pull`: what it says of a bundle that is in place."""

from dataclasses import replace
from pathlib import Path

import pytest

from client.cache.bundles import is_complete
from client.cache.library import find_bundle, kept_bundles
from client.commands.pull import pull
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from common.bundle import BundleManifest, describe_file, make_manifest
from common.protocol.messages import PROTOCOL_VERSION
from common.rpc.description import ServerDescription
from tests.client.doctor.test_server_checks import CONTENT, serving


def _description(manifest: BundleManifest) -> ServerDescription:
    return ServerDescription(
        PROTOCOL_VERSION, "9.9", "large", "f" * 64, 300, 2048, 64, (0,), ("greedy",), ("eager",), (manifest,)
    )


async def test_what_another_name_of_the_target_has_fetched_is_told_with_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "weights").write_bytes(CONTENT)
    manifest = make_manifest("moa", "lookup", "f" * 64, [describe_file("weights", tmp_path / "weights")])
    first = _description(manifest)
    for description, says in (
        (first, "the draft moa for large is in place\n"),
        (
            replace(first, model="small"),
            "the draft moa for small is in place; `outrider list` has it as large/moa\n",
        ),
    ):
        async with serving(description) as address:
            await pull(Access(address), DraftChoice(), tmp_path / "cache", trust_new=False)
        assert capsys.readouterr().err.endswith(says)
    assert find_bundle(kept_bundles(tmp_path / "cache"), "large/moa").id == manifest.id


async def test_auto_fetches_what_it_drafts_with_where_the_server_has_no_draft_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tokenizer").write_bytes(CONTENT)
    manifest = make_manifest("lookup", "lookup", "f" * 64, [describe_file("tokenizer", tmp_path / "tokenizer")])
    async with serving(_description(manifest)) as address:
        await pull(Access(address), DraftChoice("auto"), tmp_path / "cache", trust_new=False)
    assert capsys.readouterr().err.endswith("the draft lookup for large is in place\n")
    assert is_complete(tmp_path / "cache", manifest)
