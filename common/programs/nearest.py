"""What somebody may have meant who wrote a name that is not known. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

_TYPED = 0.5
"""Alike enough for what was typed a moment ago: commands of four letters with two of them in the wrong order."""


def did_you_mean(name: str, known: Iterable[str], form: str = "{}", alike: float = _TYPED) -> str:
    """A question that offers the known name that is most like it, written as `form`; empty where none is `alike`, from
    0 to 1 (difflib's ratio)."""
    meant = next(iter(get_close_matches(name, sorted(known), n=1, cutoff=alike)), None)
    return "" if meant is None else f"did you mean {form.format(meant)}?"
