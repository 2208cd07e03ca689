"""How an unexpected error is named in a log: by what it is and where it arose. Its own words may quote what a session
holds, which no log may."""

import traceback
from pathlib import Path


def named(error: BaseException) -> str:
    """Such as 'IndexError in target.py:51'."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
