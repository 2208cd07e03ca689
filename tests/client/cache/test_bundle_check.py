"""client.cache.bundle_check: a changed byte in a bundle is found before it can change a text."""

import hashlib
import os

import pytest

from client.cache import bundle_check
from client.cache.bundle_check import check_intact
from client.errors import BundleError
from common.bundle import Bundle, BundleFile, TargetCard, first_damaged, make_manifest, write_bundle_file

CONTENTS = {
    "config.json": b'{"kind": 1}',
    "model.safetensors": bytes(range(256)),
    "tail/config.json": b"{}",
    "tail/model.safetensors": bytes(100),
    "tokenizer/chat_template.jinja": b"{{ messages }}",
    "tokenizer/tokenizer.json": b'{"vocab": {}}',
}
FILES = [BundleFile(path, len(data), hashlib.sha256(data).hexdigest()) for path, data in CONTENTS.items()]
MANIFEST = make_manifest("small", "moa", "target", FILES)
TEXT = [path for path in CONTENTS if not path.endswith(".safetensors")]
WEIGHTS = [path for path in CONTENTS if path not in TEXT]


@pytest.fixture
def bundle(tmp_path):
    for path, data in CONTENTS.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
        os.utime(tmp_path / path, ns=(10**18, 10**18))
    write_bundle_file(tmp_path, Bundle(MANIFEST, TargetCard("target", "target", 9, 9, (0,))))
    return tmp_path


@pytest.fixture
def read(monkeypatch):
    """The files that were read."""
    paths = []

    def noted(directory, manifest):
        paths.extend(file.path for file in manifest.files)
        return first_damaged(directory, manifest)

    monkeypatch.setattr(bundle_check, "first_damaged", noted)
    return paths


def damage(path, *, keeps_time: bool) -> None:
    before = path.stat().st_mtime_ns
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    if keeps_time:
        os.utime(path, ns=(before, before))


def test_weights_that_nobody_touched_are_not_read(bundle, read):
    check_intact(bundle, MANIFEST)
    assert sorted(read) == sorted(TEXT)


@pytest.mark.parametrize(
    ("path", "keeps_time"), [*((path, True) for path in TEXT), *((path, False) for path in CONTENTS)]
)
def test_a_byte_that_changed_is_told_and_what_to_do(bundle, path, keeps_time):
    damage(bundle / path, keeps_time=keeps_time)
    if not keeps_time:
        os.utime(bundle / path, ns=(10**19, 10**19))
    with pytest.raises(BundleError) as told:
        check_intact(bundle, MANIFEST)
    assert str(told.value) == f"{path} in the bundle is damaged; fetch it again with `outrider pull`"


@pytest.mark.parametrize("path", ["tokenizer/tokenizer.json", "model.safetensors"])
def test_a_file_that_is_gone_is_told_too(bundle, path):
    (bundle / path).unlink()
    with pytest.raises(BundleError, match="damaged"):
        check_intact(bundle, MANIFEST)


def test_weights_that_were_copied_are_read_once(bundle, read):
    os.utime(bundle / "model.safetensors", ns=(10**19, 10**19))
    for _ in range(2):
        check_intact(bundle, MANIFEST)
    assert [path for path in read if path in WEIGHTS] == ["model.safetensors"]


def test_damage_is_told_again_the_next_time(bundle):
    damage(bundle / "tail/model.safetensors", keeps_time=False)
    os.utime(bundle / "tail/model.safetensors", ns=(10**19, 10**19))
    for _ in range(2):
        with pytest.raises(BundleError, match=r"tail/model.safetensors"):
            check_intact(bundle, MANIFEST)
