"""The bundles in the cache by name: what is there, and removing what nobody uses."""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from client.cache.bundles import bundle_directory
from client.cache.library import find_bundle, kept_bundles, remove_bundle
from client.cache.uses import in_use
from client.errors import BundleError
from common.bundle import (
    MANIFEST_FILE,
    Bundle,
    BundleManifest,
    TargetCard,
    describe_file,
    make_manifest,
    write_bundle_file,
)
from common.protocol.errors import MisuseError
from common.weight_only.modes import AS_IS, INT4, INT8

SERVER = "gpu.example.org:7070"


def keep(cache: Path, target: str, draft: str, fingerprint: str = "f" * 64, weights: str = AS_IS) -> BundleManifest:
    """A bundle as `pull` leaves it."""
    source = cache / "source"
    cache.mkdir(exist_ok=True)
    source.write_bytes(b"weights")
    manifest = make_manifest(draft, "moa", fingerprint, [describe_file("weights", source)], weights)
    directory = bundle_directory(cache, manifest)
    directory.mkdir(parents=True)
    shutil.copy(source, directory / "weights")
    write_bundle_file(directory, Bundle(manifest, TargetCard(target, fingerprint, 300, 2048, (0,))))
    return manifest


def test_a_bundle_goes_by_its_target_and_draft(tmp_path: Path) -> None:
    manifest = keep(tmp_path, "llama", "moa")
    with in_use(tmp_path, manifest.id, SERVER):
        pass
    keep(tmp_path, "llama", "eagle")
    eagle, moa = kept_bundles(tmp_path)
    assert (moa.name, moa.target, moa.draft) == ("llama/moa", "llama", "moa")
    assert moa.bytes == sum(file.stat().st_size for file in bundle_directory(tmp_path, manifest).iterdir())
    assert moa.last_use is not None
    assert moa.last_use.server == SERVER
    assert eagle.last_use is None


def test_an_empty_cache_and_one_that_is_not_there_hold_nothing(tmp_path: Path) -> None:
    assert kept_bundles(tmp_path) == kept_bundles(tmp_path / "absent") == []


def test_a_quantised_bundle_has_its_mode_in_its_name(tmp_path: Path) -> None:
    manifests = {weights: keep(tmp_path, "llama", "moa", weights=weights) for weights in (AS_IS, INT8, INT4)}
    kept = kept_bundles(tmp_path)
    assert [bundle.name for bundle in kept] == ["llama/moa", "llama/moa-int4", "llama/moa-int8"]
    assert {(bundle.draft, bundle.weights) for bundle in kept} == {("moa", weights) for weights in manifests}
    assert find_bundle(kept, "llama/moa").id == manifests[AS_IS].id
    assert find_bundle(kept, "llama/moa-int8").id == manifests[INT8].id
    assert find_bundle(kept[1:2], "llama/moa").id == manifests[INT4].id  # the only one there is


def test_two_bundles_of_one_name_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    ids = {keep(tmp_path, "llama", "moa", letter * 64).id[:8] for letter in "ab"}
    kept = kept_bundles(tmp_path)
    assert {bundle.name for bundle in kept} == {f"llama/moa@{identity}" for identity in ids}
    with pytest.raises(MisuseError, match="'llama/moa' is the name of 2 bundles; choose one: llama/moa@"):
        find_bundle(kept, "llama/moa")
    assert find_bundle(kept, kept[0].name) is kept[0]


def test_what_has_not_arrived_goes_by_its_id(tmp_path: Path) -> None:
    manifest = keep(tmp_path, "llama", "moa")
    (bundle_directory(tmp_path, manifest) / MANIFEST_FILE).unlink()
    (partial,) = kept_bundles(tmp_path)
    assert (partial.name, partial.target) == (manifest.id[:8], "")
    assert find_bundle([partial], manifest.id[:8]) is partial


@pytest.mark.parametrize("name", ["", "gemma", "moa", "../..", "/", "llama/moa/../../..", "\x1b[2J"])
def test_what_is_not_there_is_told_and_nothing_else_is_touched(name: str, tmp_path: Path) -> None:
    keep(tmp_path, "llama", "moa")
    with pytest.raises(MisuseError, match="there is no bundle") as refused:
        find_bundle(kept_bundles(tmp_path), name)
    assert str(refused.value).isprintable()


def test_a_name_that_is_nearly_one_is_answered_with_it(tmp_path: Path) -> None:
    keep(tmp_path, "llama", "moa")
    with pytest.raises(MisuseError, match=r"there is no bundle 'lama/moa' here; did you mean llama/moa\?"):
        find_bundle(kept_bundles(tmp_path), "lama/moa")


@pytest.mark.parametrize(("name", "meant"), [("lama", "llama"), ("llama/mao", "llama/moa"), ("lama/mao", "llama/moa")])
def test_a_target_or_a_draft_that_is_nearly_one_is_answered_with_it(name: str, meant: str, tmp_path: Path) -> None:
    keep(tmp_path, "llama", "moa")
    keep(tmp_path, "qwen", "moa", "a" * 64)
    with pytest.raises(MisuseError, match=rf"did you mean {meant}\?"):
        find_bundle(kept_bundles(tmp_path), name)


@pytest.mark.parametrize("name", ["small", "small/lsmall", "lsmall"])
def test_a_draft_of_another_target_is_not_offered_for_removal(name: str, tmp_path: Path) -> None:
    keep(tmp_path, "lbig", "lsmall")
    keep(tmp_path, "ltool2", "lsmall", "a" * 64)
    with pytest.raises(MisuseError, match=r"there is no bundle '.*' here; `outrider list` shows all"):
        find_bundle(kept_bundles(tmp_path), name)


def test_names_of_peers_cannot_command_a_terminal(tmp_path: Path) -> None:
    keep(tmp_path, "a\x1b[2Jb", "moa")
    (kept,) = kept_bundles(tmp_path)
    assert kept.name.isprintable()


async def test_a_bundle_is_removed_whole(tmp_path: Path) -> None:
    gone, stays = keep(tmp_path, "llama", "moa"), keep(tmp_path, "qwen", "moa", "a" * 64)
    with in_use(tmp_path, gone.id, SERVER):
        pass
    await remove_bundle(tmp_path, find_bundle(kept_bundles(tmp_path), "llama"))
    assert [bundle.id for bundle in kept_bundles(tmp_path)] == [stays.id]
    assert not bundle_directory(tmp_path, gone).exists()
    assert not (tmp_path / "uses" / gone.id).exists()


async def test_a_bundle_that_a_process_uses_stays(tmp_path: Path) -> None:
    manifest = keep(tmp_path, "llama", "moa")
    (kept,) = kept_bundles(tmp_path)
    code = (
        "import sys, pathlib; from client.cache.uses import in_use\n"
        f"with in_use(pathlib.Path({str(tmp_path)!r}), {manifest.id!r}, 'there'): print('used', flush=True), input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdin is not None
        assert user.stdout is not None
        assert user.stdout.readline() == b"used\n"
        with pytest.raises(MisuseError, match="'llama/moa' is in use; end the `outrider` that uses it first"):
            await remove_bundle(tmp_path, kept)
        assert bundle_directory(tmp_path, manifest).is_dir()
        user.kill()
    await remove_bundle(tmp_path, kept)
    assert kept_bundles(tmp_path) == []


async def test_a_bundle_that_is_being_fetched_stays(tmp_path: Path) -> None:
    manifest = keep(tmp_path, "llama", "moa")
    with (bundle_directory(tmp_path, manifest) / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(MisuseError, match="'llama/moa' is being fetched; end that first"):
            await remove_bundle(tmp_path, kept_bundles(tmp_path)[0])
    (kept,) = kept_bundles(tmp_path)
    assert kept.last_use is None


async def test_what_cannot_be_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path, "llama", "moa")

    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(BundleError, match=r"'llama/moa' cannot be removed from .*: Permission denied"):
        await remove_bundle(tmp_path, kept_bundles(tmp_path)[0])
