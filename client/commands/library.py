"""`outrider list` and `outrider rm`: the bundles in this user's cache."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from client.cache import library
from client.cache.library import KeptBundle
from common.cache import cache_directory
from common.counted import format_bytes
from common.protocol.errors import MisuseError
from common.protocol.plain import plain


def list_bundles(cache: Path | None, *, as_json: bool) -> None:
    """Prints a row for each bundle, or one JSON list."""
    kept = library.kept_bundles(cache_directory(cache))
    if as_json:
        typer.echo(json.dumps([_fields(bundle) for bundle in kept]))
        return
    if not kept:
        typer.echo("nothing is here yet; `outrider pull` fetches what a server's model needs", err=True)
        return
    rows = list(_rows(kept))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


async def remove_bundle(cache: Path | None, name: str, alias: Mapping[str, Any] | None) -> None:
    """`alias` is what the configuration says of that name. Raises MisuseError where it is not the name of one bundle,
    and where that is in use."""
    directory = cache_directory(cache)
    bundle = library.find_bundle(library.kept_bundles(directory), _meant(name, alias))
    await library.remove_bundle(directory, bundle)
    typer.echo(f"removed {bundle.name}, {format_bytes(bundle.bytes)}", err=True)


def _meant(name: str, alias: Mapping[str, Any] | None) -> str:
    """The name of a bundle or a target that an alias stands for."""
    if alias is None:
        return name
    if "model" not in alias:
        raise MisuseError(f"the alias '{name}' names no model; remove what `outrider list` shows")
    return "/".join(str(alias[part]) for part in ("model", "draft") if part in alias)


def _fields(bundle: KeptBundle) -> dict[str, Any]:
    use = bundle.last_use
    return {
        "name": bundle.name,
        "target": bundle.target,
        "draft": bundle.draft,
        "weights": bundle.weights,
        "bytes": bundle.bytes,
        "server": None if use is None else use.server,
        "last_used": None if use is None else datetime.fromtimestamp(use.at).astimezone().isoformat(timespec="seconds"),
    }


def _rows(kept: Sequence[KeptBundle]) -> Iterator[tuple[str, ...]]:
    yield "name", "size", "last used", "server"
    for bundle in kept:
        use = bundle.last_use
        size = format_bytes(bundle.bytes) if bundle.target else f"{format_bytes(bundle.bytes)}, incomplete"
        when = "-" if use is None else datetime.fromtimestamp(use.at).strftime("%Y-%m-%d %H:%M")
        yield bundle.name, size, when, "-" if use is None else plain(use.server)
