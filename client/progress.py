"""A download as a bar on stderr. Nothing else may live here."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from client.bundles import Advance
from common.bundle import BundleManifest
from common.console import PlainConsole


@contextmanager
def download_bar(manifest: BundleManifest) -> Iterator[Advance]:
    columns = (
        TextColumn("fetching {task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    console = PlainConsole(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        total = sum(file.size for file in manifest.files)
        task = progress.add_task(f"draft {manifest.draft}", total=total)
        yield lambda in_place: progress.update(task, completed=in_place)
