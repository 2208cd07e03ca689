"""Progress bars on stderr, if that is a terminal. Knows downloads and shares of work, not what is done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from client.cache.bundles import Advance
from common.bundle import BundleManifest
from common.programs.console import PlainConsole


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


@contextmanager
def share_bar(name: str) -> Iterator[Callable[[str, float], None]]:
    """Yields a function that takes the current step and the share of the whole, 0 to 1, that is done; before its first
    call the bar shows no share."""
    columns = (TextColumn(name), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    console = PlainConsole(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        yield lambda doing, share: progress.update(task, description=doing, completed=share, total=1.0)
