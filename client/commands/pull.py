"""`outrider pull`: fetch a bundle, or repair one that is damaged."""

from pathlib import Path

import typer

from client.cache.library import KeptBundle, kept_bundles
from client.cache.uses import in_use
from client.chosen_bundles import check_together, each_bundle_to_fetch, fetch_bundle
from client.drafting.draft_loader import DraftChoice
from client.link.replicas import choose_replica
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.cache import cache_directory


async def pull(access: Access, choice: DraftChoice, cache: Path | None, *, trust_new: bool) -> None:
    """Prints the directory of each bundle. `trust_new`: also if it is not what this server handed out before."""
    directory = cache_directory(cache)
    replica = await choose_replica(access, model=choice.model)
    description = replica.description
    check_together(description, choice)
    async with replica.connection as connection:
        bundles = [
            await fetch_bundle(
                connection, access.address, description, each, directory, download_bar, trust_new=trust_new, reread=True
            )
            for each in each_bundle_to_fetch(description, choice)
        ]
    kept = {each.id: each for each in kept_bundles(directory)}
    for manifest, bundle in bundles:
        with in_use(directory, manifest.id, str(access.address)):
            typer.echo(_in_place(description.model, manifest.draft, kept.get(manifest.id)), err=True)
            typer.echo(str(bundle))


def _in_place(model: str, draft: str, kept: KeptBundle | None) -> str:
    """With the name by which it is listed and removed, where the target had another one when it was fetched."""
    elsewhere = f"; `outrider list` has it as {kept.name}" if kept and kept.target != model else ""
    return f"the draft {draft} for {model} is in place{elsewhere}"
