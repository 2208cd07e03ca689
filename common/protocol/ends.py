"""Where an answer ends: at the first end token, stop string or length limit. Pure; the detokeniser is an argument."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from common.protocol.messages import FinishReason

Detokenise = Callable[[Sequence[int]], str]

# A stop string spans at most this many tokens more than it has bytes: partial characters at either edge.
_EDGE_TOKENS = 8

_CONTEXT_TOKENS = 8  # at the end of a prompt

_CHARACTER_BYTES = 4  # of the longest character in UTF-8
_BROKEN = "\N{REPLACEMENT CHARACTER}"


class Ends(Protocol):
    """How a target's answers end and are read, as sessions' terms have it."""

    @property
    def end_tokens(self) -> frozenset[int]: ...

    @property
    def detokenise(self) -> Detokenise: ...


def cut(
    sequence: Sequence[int],
    begin: int,
    fresh: Sequence[int],
    stop: Sequence[str],
    room: int,
    ends: Ends,
) -> tuple[int, FinishReason | None]:
    """How many of the `fresh` tokens that follow the `sequence` are kept, and why the answer ends there, if it does.

    The answer begins at `begin`, behind its prompt. `room` is the number of tokens that may still be committed. The
    token that completes an end is kept.
    """
    if stop and not _may_complete(stop, sequence, begin, fresh, ends.detokenise):
        stop = ()
    for index, token in enumerate(fresh):
        if index >= room:
            return index, FinishReason.LENGTH
        if token in ends.end_tokens:
            return index + 1, FinishReason.END
        if stop:
            # No more than may hold a stop string: after a restart a whole answer comes again, however long it is.
            window = fresh[max(0, index + 1 - _window(stop)) : index + 1]
            if _completes(stop, sequence, begin, window, ends.detokenise):
                return index + 1, FinishReason.END
    return len(fresh), FinishReason.LENGTH if len(fresh) >= room else None


def _may_complete(
    stop: Sequence[str], sequence: Sequence[int], begin: int, fresh: Sequence[int], detokenise: Detokenise
) -> bool:
    """False only if no token of `fresh` completes a stop string: one look in place of one for each."""
    window = _window(stop)
    tail = [*sequence[max(begin, len(sequence) - window) :], *fresh]
    before = _before(sequence, begin) if len(sequence) - window <= begin else ()
    text = next(_texts(tail, before, stop, detokenise))
    return any(_BROKEN in each for each in (text, *stop)) or any(string in text for string in stop)


def _completes(
    stop: Sequence[str], sequence: Sequence[int], begin: int, fresh: Sequence[int], detokenise: Detokenise
) -> bool:
    window = _window(stop)
    tail = [*sequence[max(begin, len(sequence) - window) :], *fresh][-window:]
    before = _before(sequence, begin) if len(tail) < window else ()
    for text in _texts(tail, before, stop, detokenise):
        if any(string in text for string in stop):
            return True
        if _BROKEN not in text:
            return False
    return False


def _window(stop: Sequence[str]) -> int:
    """How many tokens may hold the longest stop string."""
    return max(len(string.encode()) for string in stop) + _EDGE_TOKENS


def _before(sequence: Sequence[int], begin: int) -> Sequence[int]:
    """The last tokens of the prompt."""
    return sequence[max(0, begin - _CONTEXT_TOKENS) : begin]


def _texts(tail: Sequence[int], before: Sequence[int], stop: Sequence[str], detokenise: Detokenise) -> Iterator[str]:
    """Texts of the tail of an answer, of which the next is only needed if one is broken. `before`: the prompt's tokens,
    if it is the whole answer, for decoders may strip a blank at the start of a text."""
    if before:
        yield _behind(before, tail, detokenise)
    sizes = [len(string.encode()) for string in stop]
    yield from (detokenise(tail[max(0, start) :]) for start in _starts(len(tail), sizes))


def _starts(tokens: int, sizes: Sequence[int]) -> Iterator[int]:
    """Where to begin in so many tokens. Decoders of byte tokens break a whole run of them for one that is wrong, or
    where it begins inside a character."""
    yield from range(_CHARACTER_BYTES)
    yield from (tokens - size for size in sizes)


def _behind(before: Sequence[int], tokens: Sequence[int], detokenise: Detokenise) -> str:
    """The text of the tokens as it is behind others."""
    known, text = detokenise(before), detokenise([*before, *tokens])
    return text[len(known) :] if text.startswith(known) else detokenise(tokens)
