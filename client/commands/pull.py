"""`outrider pull`: fetch a bundle, or repair one that is damaged."""

from pathlib import Path

import typer

from client.assembly import describe, fetch_bundle
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.cache import cache_directory
from common.weight_only.modes import AS_IS, check_weights


async def pull(access: Access, draft: str | None, cache: Path | None, *, weights: str = AS_IS, trust_new: bool) -> None:
    """Prints the bundle's directory. `trust_new`: also if it is not what this server handed out before.

    Raises MisuseError for a weights mode that does not exist."""
    check_weights(weights)
    directory = cache_directory(cache)
    async with access.connect() as connection:
        description = await describe(connection)
        manifest, bundle = await fetch_bundle(
            connection,
            access.address,
            description,
            draft,
            directory,
            download_bar,
            weights=weights,
            trust_new=trust_new,
            reread=True,
        )
    typer.echo(f"the draft {manifest.draft} for {description.model} is in place", err=True)
    typer.echo(str(bundle))
