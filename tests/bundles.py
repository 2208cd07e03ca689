"""Reads the `bundle.json` that our programs write."""

import json
from pathlib import Path

from common.bundle import MANIFEST_FILE, Bundle, BundleFile, TargetCard, make_manifest


def read_bundle_file(directory: Path) -> Bundle:
    """Its id is checked against its content."""
    content = json.loads((directory / MANIFEST_FILE).read_text(encoding="utf-8"))
    assert content["format"] == 1
    target = content["target"]
    card = TargetCard(**{**target, "end_tokens": tuple(target["end_tokens"])})
    files = [BundleFile(**file) for file in content["files"]]
    manifest = make_manifest(content["draft"], content["kind"], card.fingerprint, files)
    assert manifest.id == content["id"]
    return Bundle(manifest, card)
