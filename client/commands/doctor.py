"""`outrider doctor`: what could stand in the way, checked one by one, each with what mends it."""

import importlib.metadata
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from client.assembly import describe
from client.bundles import choose_bundle, is_complete
from client.link import Access
from common.cache import cache_directory
from common.protocol.errors import OutriderError

_OLDEST_PYTHON = (3, 11)
_PACKAGES = ("grpcio", "numpy", "protobuf", "rich", "safetensors", "tokenizers", "torch", "transformers", "typer")
_FREE_BYTES = 2 * 10**9  # a bundle with a model draft and its partial files


@dataclass(frozen=True, slots=True)
class Finding:
    """`mend` says what to do; empty where all is well."""

    subject: str
    detail: str
    mend: str = ""


async def doctor(access: Access | None, device: str, cache: Path | None) -> bool:
    """Prints one line for each check; whether all is well."""
    directory = cache_directory(cache)
    checks: tuple[Callable[[], Finding], ...] = (
        check_python,
        check_packages,
        lambda: check_device(device),
        lambda: check_cache(directory),
    )
    findings = [check() for check in checks]
    if access is not None:
        findings += await check_server(access, directory)
    console = Console()
    for finding in findings:
        verdict = "[red]fail[/]" if finding.mend else "[green]ok[/]  "
        console.print(f"{verdict}  {finding.subject}: ", end="", highlight=False)
        console.print(
            "; ".join(filter(None, (finding.detail, finding.mend))), markup=False, highlight=False, soft_wrap=True
        )
    return not any(finding.mend for finding in findings)


def check_python() -> Finding:
    wanted = ".".join(map(str, _OLDEST_PYTHON))
    mend = "" if sys.version_info >= _OLDEST_PYTHON else f"install Python {wanted} or newer"
    return Finding("python", platform.python_version(), mend)


def check_packages() -> Finding:
    versions, missing = [], []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    return Finding("packages", ", ".join(versions), f"install {', '.join(missing)} with pip" if missing else "")


def check_device(device: str) -> Finding:
    try:
        import torch

        torch.zeros(1, device=device)
    except (ImportError, RuntimeError, AssertionError) as error:
        return Finding("device", f"{device} cannot be used ({str(error).splitlines()[0]})", "use --device cpu")
    return Finding("device", f"{device} works, {torch.get_num_threads()} threads")


def check_cache(directory: Path) -> Finding:
    mend = "choose another place with --cache-dir"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return Finding("cache", f"{directory} cannot be written ({error.strerror})", mend)
    return Finding("cache", f"{directory} has {free / 1e9:.1f} GB free", mend if free < _FREE_BYTES else "")


async def check_server(access: Access, cache: Path) -> list[Finding]:
    try:
        async with access.connect() as connection:
            description = await describe(connection)
            manifest = choose_bundle(description.bundles, None)
    except OutriderError as error:
        return [Finding("server", f"{access.address} is of no use", str(error))]
    server = Finding(
        "server", f"{description.model} at {access.address}, protocol {description.version}, {description.release}"
    )
    state = "here" if is_complete(cache, manifest) else "not here yet; it is fetched when needed"
    bundle = Finding("bundle", f"draft {manifest.draft} for target {description.fingerprint[:12]} is {state}")
    return [server, bundle]
