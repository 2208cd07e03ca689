"""Downloads without a progress bar, for experiments that show their own."""

from collections.abc import Iterator
from contextlib import contextmanager

from client.cache.bundles import Advance
from common.bundle import BundleManifest


@contextmanager
def no_bar(manifest: BundleManifest) -> Iterator[Advance]:
    yield lambda in_place: None
