"""What an arena is: somewhere frames arrive, and what may become of one. Nothing else may live here."""

from random import Random
from typing import Protocol

from tests.fuzz.chance import Shot


class FaultError(AssertionError):
    """Something happened that no frame may bring about."""


class Arena(Protocol):
    """One episode. Whatever it does by chance on its own depends on the dice that it was made with, so that the same
    frames have the same effect again."""

    def frame(self, dice: Random) -> Shot:
        """The next frame of a peer that means no good."""
        ...

    def take(self, data: bytes) -> str:
        """What became of it, in a word. Raises anything for what must not happen."""
        ...

    def end(self) -> None:
        """No more will come: raises FaultError where something is left over."""
        ...


def check_sentence(error: Exception) -> None:
    """What a person reads of a peer's fault must be one line of bearable length that commands no terminal."""
    sentence = str(error)
    if not sentence.isprintable() or not 0 < len(sentence) < 1200:
        raise FaultError(f"a fault is told in {len(sentence)} characters: {sentence[:200]!r}")
