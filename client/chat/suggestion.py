"""What somebody may have meant who typed a name that is not known. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """A question that offers the known name that is most like it; empty where none is."""
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else ""
