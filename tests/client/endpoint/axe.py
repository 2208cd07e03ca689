"""axe-core, which finds what keeps people from using a page, as npm has it. It is fetched once for each environment, by
its checksum; without npm, or a registry to ask, a test that needs it goes on without it, and warns."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page

_VERSION = "4.14.1"
_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"  # of axe.min.js
_KEPT = Path(sys.prefix) / "share" / f"axe-core-{_VERSION}.min.js"


class _NotHereError(Exception):
    """axe-core cannot be had; the text says why."""


@cache
def _axe_core() -> str | None:
    """Its source, or None with a warning if it cannot be had."""
    try:
        if not _KEPT.exists():
            _keep(_fetch())
    except _NotHereError as error:
        warnings.warn(f"axe's rules are not checked: {error}", stacklevel=2)
        return None
    source = _KEPT.read_bytes()
    assert hashlib.sha256(source).hexdigest() == _SHA256, f"{_KEPT} is not what it should be; delete it"
    return source.decode()


def _keep(source: bytes) -> None:
    """Whole or not at all, as other processes may look for it at the same time."""
    assert hashlib.sha256(source).hexdigest() == _SHA256, f"npm's axe-core {_VERSION} is not what it should be"
    try:
        _KEPT.parent.mkdir(parents=True, exist_ok=True)
        written = _KEPT.with_suffix(f".{os.getpid()}")
        written.write_bytes(source)
        written.replace(_KEPT)
    except OSError as error:
        raise _NotHereError(f"it cannot be kept: {error}") from error


def _fetch() -> bytes:
    npm = shutil.which("npm")
    if npm is None:
        raise _NotHereError("no npm here to fetch it: apt-get install npm")
    with TemporaryDirectory() as folder:
        packing = [npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", folder, f"axe-core@{_VERSION}"]
        try:
            subprocess.run(packing, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
        except (subprocess.SubprocessError, OSError) as error:
            raise _NotHereError(f"npm could not fetch it: {error}") from error
        (packed,) = Path(folder).glob("*.tgz")
        with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as archive:
            member = archive.extractfile("package/axe.min.js")
            assert member is not None
            return member.read()


def violations(page: Page) -> list[str]:
    """What axe's rules find wrong in the page as it is now: the rule, why, and where; nothing if axe is not here."""
    if (source := _axe_core()) is None:
        return []
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"{source}; undefined")
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((results) => results.violations)")
    return [f"{rule['id']}: {rule['help']}: {[node['html'][:200] for node in rule['nodes']]}" for rule in found]
