"""Where this user's caches lie. Nothing else may live here."""

import os
from pathlib import Path

CACHE_VARIABLE = "OUTRIDER_CACHE"


def cache_directory(chosen: Path | None = None) -> Path:
    """Where bundles and what is made for them are kept: as chosen, else by environment, else this user's cache."""
    import platformdirs

    return chosen or Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("outrider"))
