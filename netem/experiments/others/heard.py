"""What a person hears of one answer, whichever system gives it. Knows no system; the clock is an argument."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from common.clock import Clock


@dataclass(slots=True)
class Heard:
    """The answer to one prompt as it comes in, timed from its request on.

    arrivals: seconds and the tokens of each piece. shown: the most provisional tokens that stood behind the final ones.
    passes, drafted: target passes and drafted levels of the answer, as who drafts counts them; in a chain a level is a
    token, in a tree several. error: why it broke off, in its client's words. end: how the client says that the answer
    ended.
    """

    clock: Clock
    arrivals: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)
    shown: int = 0
    passes: int = 0
    drafted: int = 0
    error: str = ""
    end: str = ""
    seconds: float = 0.0
    began_s: float = 0.0

    def __post_init__(self) -> None:
        self.began_s = self.clock()

    def hear(self, tokens: Sequence[int], provisional: Sequence[int] = ()) -> None:
        if tokens:
            self.arrivals.append((self.clock() - self.began_s, tuple(tokens)))
        self.shown = max(self.shown, len(provisional))

    def finish(self) -> None:
        self.seconds = self.clock() - self.began_s

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token for _, piece in self.arrivals for token in piece)

    @property
    def first_s(self) -> float:
        """To the first token; the whole time where none came."""
        return self.arrivals[0][0] if self.arrivals else self.seconds


def without_end(tokens: tuple[int, ...], end_tokens: Collection[int]) -> tuple[int, ...]:
    """Tokens of an answer's text: some servers send its end token, and others do not."""
    return tokens[:-1] if tokens and tokens[-1] in end_tokens else tokens


class OtherSystem(Protocol):
    """Anything that answers over a link."""

    async def connect(self) -> None:
        """Once it returns, a question finds an open connection, as that of one who has just asked does."""
        ...

    async def ask(self, prompt: Sequence[int], new_tokens: int, heard: Heard) -> None:
        """Fills `heard` until the answer ends, or breaks off. prompt: token ids."""
        ...
