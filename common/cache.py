"""The directory of this user's cache. Nothing else may live here."""

import os
from pathlib import Path

CACHE_VARIABLE = "OUTRIDER_CACHE"


def cache_directory(chosen: Path | None = None) -> Path:
    """Where bundles and target tails are kept: `chosen`, else $OUTRIDER_CACHE, else the platform's cache directory."""
    import platformdirs

    return chosen or Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("outrider"))
