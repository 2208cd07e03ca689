"""Where an answer ends: at the first end token, stop string or length limit. Pure; the detokeniser is an argument."""

from collections.abc import Callable, Sequence

from common.protocol.messages import FinishReason

Detokenise = Callable[[Sequence[int]], str]

# A stop string spans at most this many tokens more than it has bytes: partial characters at either edge.
_EDGE_TOKENS = 8

_CHARACTER_BYTES = 4  # of the longest character in UTF-8
_BROKEN = "\N{REPLACEMENT CHARACTER}"


def cut(
    answer: Sequence[int],
    fresh: Sequence[int],
    stop: Sequence[str],
    room: int,
    end_tokens: frozenset[int],
    detokenise: Detokenise,
) -> tuple[int, FinishReason | None]:
    """How many of the `fresh` tokens that follow `answer` are kept, and why the answer ends there, if it does.

    `room` is the number of tokens that may still be committed. The token that completes an end is kept.
    """
    for index, token in enumerate(fresh):
        if index >= room:
            return index, FinishReason.LENGTH
        if token in end_tokens or (stop and _completes(stop, answer, fresh[: index + 1], detokenise)):
            return index + 1, FinishReason.END
    return len(fresh), FinishReason.LENGTH if len(fresh) >= room else None


def _completes(stop: Sequence[str], answer: Sequence[int], fresh: Sequence[int], detokenise: Detokenise) -> bool:
    sizes = [len(string.encode()) for string in stop]
    window = max(sizes) + _EDGE_TOKENS
    tail = [*answer[-window:], *fresh][-window:]
    # Decoders of byte tokens break a whole run of them for one that is wrong, or where it begins inside a character.
    for start in (*range(_CHARACTER_BYTES), *(len(tail) - size for size in sizes)):
        text = detokenise(tail[max(0, start) :])
        if any(string in text for string in stop):
            return True
        if _BROKEN not in text:
            return False
    return False
