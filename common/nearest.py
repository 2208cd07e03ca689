"""What somebody may have meant who wrote a name that is not known. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

_LEAST_ALIKE = 0.5  # enough for commands of four letters with two of them in the wrong order


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like it; empty where none is like it at all."""
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=_LEAST_ALIKE)), "")


def did_you_mean(name: str, known: Iterable[str], form: str = "{}") -> str:
    """A question that offers the nearest name, written as `form`; empty where there is none."""
    meant = nearest(name, known)
    return f"did you mean {form.format(meant)}?" if meant else ""
