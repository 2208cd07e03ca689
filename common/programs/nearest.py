"""Suggestions for names that are not known ("did you mean ...?"). Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

_TYPED = 0.6
"""The least similarity for names that were typed: a command of four letters with two exchanged has 0.75, and words that
have only some letters in common 0.5."""


def did_you_mean(name: str, known: Iterable[str], form: str = "{}", alike: float = _TYPED) -> str:
    """A question that offers the most similar known name, formatted by `form`; empty if the similarity of all is
    below `alike`, from 0 to 1 (difflib's ratio)."""
    meant = next(iter(get_close_matches(name, sorted(known), n=1, cutoff=alike)), None)
    return "" if meant is None else f"did you mean {form.format(meant)}?"
