"""Text up to the first stop string, as it grows or whole. Pure; knows no tokens and no screen.

Of all stop strings in a text that one counts which is complete first, and of those that end together the longest, so
that the outcome does not depend on the pieces in which the text came.
"""

from collections.abc import Sequence


def before_stop(text: str, stops: Sequence[str]) -> str:
    """The text up to its first stop string, all of it where there is none."""
    occurrences = [(start + len(stop), start) for stop in stops if (start := text.find(stop)) >= 0]
    return text[: min(occurrences)[1]] if occurrences else text


class TextBeforeStop:
    """Holds back what may be the beginning of a stop string until it is decided."""

    def __init__(self, stops: Sequence[str]):
        """No stop string may be empty."""
        self._stops = stops
        self._undecided = ""
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether a stop string came."""
        return self._stopped

    def append(self, text: str) -> str:
        """Appends text; returns what is now certain to precede any stop string."""
        if self._stopped:
            return ""
        if not self._stops:
            return text
        text = self._undecided + text
        before = before_stop(text, self._stops)
        self._stopped = len(before) < len(text)
        decided = len(before) if self._stopped else len(text) - self._longest_beginning_at_the_end(text)
        self._undecided = "" if self._stopped else text[decided:]
        return text[:decided]

    def preview(self, text: str) -> str:
        """What would be shown beyond what was returned if this text followed and nothing more."""
        return "" if self._stopped else before_stop(self._undecided + text, self._stops)

    def flush(self) -> str:
        """What is still held back: no more text will come."""
        rest, self._undecided = self._undecided, ""
        return rest

    def _longest_beginning_at_the_end(self, text: str) -> int:
        """How many characters at the end of a text without a stop string may begin one."""
        lengths = (length for stop in self._stops for length in range(1, len(stop)) if text.endswith(stop[:length]))
        return max(lengths, default=0)
