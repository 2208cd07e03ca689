"""What a client quantises itself: beside what it was made of, never of damaged files, and gone with its bundle."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from client.cache.bundles import bundle_directory, discard_damaged
from client.cache.library import find_bundle, kept_bundles, remove_bundle
from client.cache.quantised_bundle import quantised_here
from client.errors import BundleError
from common.bundle import Bundle, BundleManifest, TargetCard, describe_file, make_manifest, write_bundle_file
from common.models.source import CONFIG, WEIGHTS
from common.protocol.errors import MisuseError
from common.weight_only.files import mode_of
from common.weight_only.modes import INT4, INT8, QUANTISED

TENSORS = {"lm_head.weight": torch.linspace(-1, 1, 64 * 64).view(64, 64)}


def keep(cache: Path, tensors: dict[str, torch.Tensor] = TENSORS, config: dict[str, object] = {}) -> BundleManifest:  # noqa: B006
    """A bundle as `pull` leaves it."""
    source = cache / "source"
    (source / "tail").mkdir(parents=True)
    for folder in (source, source / "tail"):
        save_file(tensors, folder / WEIGHTS)
        (folder / CONFIG).write_text(json.dumps(config))
    paths = [WEIGHTS, CONFIG, f"tail/{WEIGHTS}", f"tail/{CONFIG}"]
    manifest = make_manifest("small", "moa", "f" * 64, [describe_file(path, source / path) for path in paths])
    directory = bundle_directory(cache, manifest)
    directory.parent.mkdir()
    source.rename(directory)
    write_bundle_file(directory, Bundle(manifest, TargetCard("llama", "f" * 64, 300, 2048, (0,))))
    return manifest


@pytest.mark.parametrize("mode", QUANTISED)
def test_a_bundle_is_quantised_once(tmp_path: Path, mode: str) -> None:
    manifest = keep(tmp_path)
    bundle = bundle_directory(tmp_path, manifest)
    made = quantised_here(bundle, manifest, mode)
    assert mode_of(made / WEIGHTS) == mode_of(made / "tail" / WEIGHTS) == mode
    assert (made / "tail" / CONFIG).read_text() == "{}"
    written = {file: file.lstat().st_mtime_ns for file in bundle.rglob("*")}
    assert quantised_here(bundle, manifest, mode) == made
    assert {file: file.lstat().st_mtime_ns for file in bundle.rglob("*")} == written


async def test_copies_are_counted_and_removed_with_their_bundle(tmp_path: Path) -> None:
    manifest = keep(tmp_path)
    bundle = bundle_directory(tmp_path, manifest)
    before = kept_bundles(tmp_path)[0].bytes
    for mode in QUANTISED:
        made = quantised_here(bundle, manifest, mode)
    (kept,) = kept_bundles(tmp_path)
    assert kept.name == "llama/small"
    assert kept.bytes == before + sum(file.stat().st_size for file in (bundle / "quantised").iterdir())
    await remove_bundle(tmp_path, find_bundle([kept], "llama/small"))
    assert not made.exists()
    assert not list((tmp_path / "bundles").iterdir())


def test_damaged_weights_are_not_quantised(tmp_path: Path) -> None:
    manifest = keep(tmp_path)
    bundle = bundle_directory(tmp_path, manifest)
    content = bytearray((bundle / WEIGHTS).read_bytes())
    content[-3] ^= 1
    (bundle / WEIGHTS).write_bytes(content)
    with pytest.raises(BundleError, match=r"model\.safetensors in the bundle is damaged; fetch it again"):
        quantised_here(bundle, manifest, INT8)
    content[-3] ^= 1
    (bundle / WEIGHTS).write_bytes(content)
    assert mode_of(quantised_here(bundle, manifest, INT8) / WEIGHTS) == INT8


async def test_a_pull_discards_what_was_quantised_here(tmp_path: Path) -> None:
    """No checksum tells whether that is damaged."""
    manifest = keep(tmp_path)
    bundle = bundle_directory(tmp_path, manifest)
    whole = (quantised_here(bundle, manifest, INT4) / WEIGHTS).read_bytes()
    (bundle / INT4 / WEIGHTS).write_bytes(whole[:-8])
    await discard_damaged(tmp_path, manifest)
    assert (quantised_here(bundle, manifest, INT4) / WEIGHTS).read_bytes() == whole


def test_a_draft_that_is_stored_in_few_bits_is_left_alone(tmp_path: Path) -> None:
    manifest = keep(tmp_path / "a", config={"quantization_config": {"quant_method": "gptq"}})
    with pytest.raises(MisuseError, match="'small' is quantised already; leave --weights out"):
        quantised_here(bundle_directory(tmp_path / "a", manifest), manifest, INT8)
    few = {"lm_head.weight": TENSORS["lm_head.weight"].to(torch.float8_e4m3fn)}
    manifest = keep(tmp_path / "b", few)
    with pytest.raises(MisuseError, match=r"float8_e4m3fn, which cannot be quantised again"):
        quantised_here(bundle_directory(tmp_path / "b", manifest), manifest, INT8)
