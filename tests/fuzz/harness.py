"""The interface of a harness, which receives frames, and the error for what no frame may cause. Nothing else may live
here."""

from random import Random
from typing import Protocol

from tests.fuzz.mutation import FuzzedFrame


class FaultError(AssertionError):
    """A frame caused something that no frame may cause."""


class Harness(Protocol):
    """One episode. Its own random choices depend only on the `rng` that it was made with, so that the same frames have
    the same effect again."""

    def frame(self, rng: Random) -> FuzzedFrame:
        """The next frame of a malicious peer."""
        ...

    def take(self, data: bytes) -> str:
        """Processes a frame and returns the outcome as one word. Any exception is a failure."""
        ...

    def end(self) -> None:
        """Ends the episode. Raises FaultError if anything is still held."""
        ...


def check_sentence(error: Exception) -> None:
    """The message that a user sees for a peer's fault must be one line of limited length without terminal control
    codes."""
    sentence = str(error)
    if not sentence.isprintable() or not 0 < len(sentence) < 1200:
        raise FaultError(f"a fault is told in {len(sentence)} characters: {sentence[:200]!r}")
