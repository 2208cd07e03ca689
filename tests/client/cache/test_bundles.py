"""Fetching bundles from a source that breaks or sends wrong data; no byte is fetched twice."""

import asyncio
import hashlib
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from client.cache.bundles import choose_bundle, discard_damaged, in_weights, is_complete, pull
from client.errors import BundleError
from common.bundle import BundleFile, first_damaged, make_manifest, read_bundle_file
from common.protocol.errors import MisuseError
from common.rpc.description import ServerDescription
from common.rpc.errors import LinkError

CONTENTS = {
    "config.json": b"{}",
    "model.safetensors": bytes(range(256)) * 40,
    "tokenizer/tokenizer.json": b"",
    "z": b"9",
}
FILES = [BundleFile(path, len(data), hashlib.sha256(data).hexdigest()) for path, data in CONTENTS.items()]
MANIFEST = make_manifest("small", "independent", "target", FILES)
LOOKUP = make_manifest("lookup", "lookup", "target", FILES[2:3])
DESCRIPTION = ServerDescription(1, "0", "target", "target", 300, 2048, 512, (0,), (), (), (MANIFEST, LOOKUP))


class Source:
    """Serves `contents`; breaks after `breaks_after` bytes."""

    def __init__(self, contents=CONTENTS, breaks_after: int | None = None):
        self.served = 0
        self._contents = contents
        self._breaks_after = breaks_after

    async def fetch(self, request):
        data = self._contents[request.path][request.offset :]
        for start in range(0, len(data), 1000):
            if self._breaks_after is not None and self.served >= self._breaks_after:
                raise LinkError("gone")
            piece = data[start : start + 1000]
            self.served += len(piece)
            yield piece


async def fetched(source, cache, progress=None):
    advance = progress.append if progress is not None else lambda in_place: None
    return await pull(source, DESCRIPTION, MANIFEST, cache, advance)


async def test_a_bundle_arrives_whole(tmp_path):
    progress = []
    directory = await fetched(Source(), tmp_path, progress)
    assert first_damaged(directory, MANIFEST) is None
    assert read_bundle_file(directory).manifest == MANIFEST
    assert progress == sorted(progress)
    assert progress[-1] == sum(file.size for file in FILES)


async def test_what_is_whole_is_on_the_disk(tmp_path, monkeypatch):
    """Later starts look at sizes, which a file system may keep where it lost the content."""
    synced, sync = set[int](), os.fsync

    def noted(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    directory = await fetched(Source(), tmp_path)
    assert {(directory / file.path).stat().st_ino for file in FILES} <= synced


async def test_an_interrupted_pull_resumes_where_it_stopped(tmp_path):
    broken = Source(breaks_after=5000)
    with pytest.raises(LinkError):
        await fetched(broken, tmp_path)
    assert not is_complete(tmp_path, MANIFEST)
    rest = Source()
    directory = await fetched(rest, tmp_path)
    assert broken.served + rest.served == sum(file.size for file in FILES)
    assert first_damaged(directory, MANIFEST) is None


async def test_an_interrupted_pull_resumes_where_only_the_rest_has_room(tmp_path, monkeypatch):
    with pytest.raises(LinkError):
        await fetched(Source(breaks_after=5000), tmp_path)
    kept = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert kept >= 5000
    rest = sum(file.size for file in FILES) - kept
    monkeypatch.setattr("client.cache.bundles.shutil.disk_usage", lambda _: SimpleNamespace(free=rest))
    assert first_damaged(await fetched(Source(), tmp_path), MANIFEST) is None


async def test_the_room_of_a_part_that_is_too_long_counts_for_its_own_file_alone(tmp_path, monkeypatch):
    with pytest.raises(LinkError):
        await fetched(Source(breaks_after=5000), tmp_path)
    (part,) = tmp_path.rglob("*.part")
    part.write_bytes(bytes(1_000_000))
    monkeypatch.setattr("client.cache.bundles.shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(BundleError, match="needs"):
        await fetched(Source(), tmp_path)


async def test_a_complete_bundle_is_not_fetched_again(tmp_path):
    await fetched(Source(), tmp_path)
    again = Source()
    await fetched(again, tmp_path)
    assert again.served == 0


async def test_a_damaged_file_is_thrown_away_and_comes_again(tmp_path):
    lying = {**CONTENTS, "model.safetensors": CONTENTS["model.safetensors"][::-1]}
    with pytest.raises(BundleError, match="damaged"):
        await fetched(Source(lying), tmp_path)
    directory = await fetched(Source(), tmp_path)
    assert first_damaged(directory, MANIFEST) is None


async def test_a_bundle_that_no_disk_holds_is_not_begun(tmp_path):
    huge = make_manifest("huge", "independent", "target", [*FILES, BundleFile("y", 1 << 60, "0" * 64)])
    source = Source()
    with pytest.raises(BundleError, match=r"the draft model 'huge' needs 1,152,921,504.6 GB, but .* GB are free"):
        await pull(source, DESCRIPTION, huge, tmp_path, lambda in_place: None)
    assert source.served == 0
    assert not list(tmp_path.iterdir())


async def test_room_is_told_in_units_in_which_it_is_not_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("client.cache.bundles.shutil.disk_usage", lambda _: SimpleNamespace(free=30_000))
    small = make_manifest("small", "independent", "target", [BundleFile("a", 2_500_000, "0" * 64)])
    with pytest.raises(BundleError, match=r"needs 2\.5 MB, but 30\.0 kB are free"):
        await pull(Source(), DESCRIPTION, small, tmp_path, lambda in_place: None)


async def test_an_endless_file_is_refused(tmp_path):
    source = Source({**CONTENTS, "z": b"9" * 10_000})
    with pytest.raises(BundleError, match="damaged"):
        await fetched(source, tmp_path)
    assert source.served < sum(file.size for file in FILES) + 1000, "and not read to its end"


async def test_a_part_that_is_too_long_is_no_beginning(tmp_path):
    with pytest.raises(LinkError):
        await fetched(Source(breaks_after=5000), tmp_path)
    (part,) = tmp_path.rglob("*.part")
    part.write_bytes(bytes(20_000))
    assert first_damaged(await fetched(Source(), tmp_path), MANIFEST) is None


async def test_a_file_that_ends_early_is_kept_for_the_next_time(tmp_path):
    with pytest.raises(BundleError, match="resume"):
        await fetched(Source({**CONTENTS, "model.safetensors": CONTENTS["model.safetensors"][:4000]}), tmp_path)
    rest = Source()
    await fetched(rest, tmp_path)
    assert rest.served == sum(file.size for file in FILES) - 4000 - len(CONTENTS["config.json"])


async def test_damage_in_the_cache_is_found_and_mended(tmp_path):
    directory = await fetched(Source(), tmp_path)
    for path in ("model.safetensors", "z"):
        (directory / path).write_bytes(b"x" * len(CONTENTS[path]))
    await discard_damaged(tmp_path, MANIFEST)
    assert not is_complete(tmp_path, MANIFEST)
    await fetched(Source(), tmp_path)
    assert first_damaged(directory, MANIFEST) is None


async def test_a_file_that_was_cut_short_makes_the_bundle_incomplete(tmp_path):
    directory = await fetched(Source(), tmp_path)
    (directory / "model.safetensors").write_bytes(CONTENTS["model.safetensors"][:-1])
    assert not is_complete(tmp_path, MANIFEST)
    await fetched(Source(), tmp_path)
    assert is_complete(tmp_path, MANIFEST)
    assert first_damaged(directory, MANIFEST) is None


async def test_two_who_pull_at_once_fetch_once(tmp_path):
    class Slow(Source):
        async def fetch(self, request):
            async for piece in super().fetch(request):
                await asyncio.sleep(0.01)
                yield piece

    first, second = Slow(), Slow()
    directory, _ = await asyncio.gather(fetched(first, tmp_path), fetched(second, tmp_path))
    assert sorted([first.served, second.served]) == [0, sum(file.size for file in FILES)]
    assert first_damaged(directory, MANIFEST) is None


async def test_another_process_is_waited_for(tmp_path):
    directory = tmp_path / "bundles" / MANIFEST.id
    directory.mkdir(parents=True)
    lock = directory / ".lock"
    script = "import filelock, sys; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); print(flush=True); input()"
    holder = subprocess.Popen([sys.executable, "-c", script, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    pulling = asyncio.create_task(fetched(Source(), tmp_path))
    await asyncio.sleep(0.3)
    assert list(directory.iterdir()) == [lock]
    holder.kill()
    holder.communicate()
    assert first_damaged(await pulling, MANIFEST) is None


async def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "bundles").write_text("in the way")
    with pytest.raises(BundleError, match="--cache-dir"):
        await fetched(Source(), tmp_path)


async def test_weights_that_a_server_quantised_are_fetched_unless_the_whole_ones_are_here_already(tmp_path):
    in_int8 = make_manifest("small", "independent", "target", FILES[:2], weights="int8")
    of_another = make_manifest("other", "independent", "target", FILES[:3], weights="int8")
    offered = (of_another, in_int8)
    assert in_weights(MANIFEST, offered, "int8", tmp_path) == in_int8
    assert in_weights(MANIFEST, offered, "int4", tmp_path) == MANIFEST
    await fetched(Source(), tmp_path)
    assert in_weights(MANIFEST, offered, "int8", tmp_path) == MANIFEST
    await pull(Source(), DESCRIPTION, in_int8, tmp_path, lambda in_place: None)
    assert in_weights(MANIFEST, offered, "int8", tmp_path) == in_int8


def test_the_first_model_draft_is_the_default_and_lookup_the_last_resort():
    assert choose_bundle([LOOKUP, MANIFEST], None) == MANIFEST
    assert choose_bundle([LOOKUP], None) == LOOKUP
    assert choose_bundle([MANIFEST, LOOKUP], "lookup") == LOOKUP
    with pytest.raises(MisuseError, match="small, lookup"):
        choose_bundle([MANIFEST, LOOKUP], "large")
    with pytest.raises(BundleError):
        choose_bundle([], None)
