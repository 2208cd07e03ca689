"""The log-probabilities of an answer's tokens, kept until their text is emitted; and how tokens are spelled.

It may not know requests, HTTP or the shapes in which an app is told.
"""

import json
import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from client.endpoint.answer_parsers.pieces import ScoredToken
from common.models.tokenizer import definition_of
from common.protocol.logprobs import TokenLogprobs

if TYPE_CHECKING:
    from common.models.tokenizer import Tokenizer

_ONE_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # sentencepiece's

LogprobsOf = Callable[[int], TokenLogprobs | None]
"""Of the token at that index of the answer; None where the target has none."""

Spell = Callable[[int], bytes]


class Spelling:
    """The bytes that each token of a vocabulary stands for, which may be parts of a character."""

    def __init__(self, tokenizer: "Tokenizer"):
        self._tokenizer = tokenizer

    def __call__(self, token: int) -> bytes:
        """Nothing for a number beyond the vocabulary, which models may have logits for."""
        added = self._added.get(token)
        if added is not None:
            return added
        written = self._written.get(token, "")
        if self._is_byte_level:
            return bytes(_BYTES[character] for character in written if character in _BYTES)
        one_byte = _ONE_BYTE.fullmatch(written)
        return bytes.fromhex(one_byte[1]) if one_byte else written.replace(_SPACE, " ").encode()

    @cached_property
    def _added(self) -> dict[int, bytes]:
        """Read once: a tokenizer makes this table anew whenever it is asked."""
        return {token: str(added).encode() for token, added in self._tokenizer.added_tokens_decoder.items()}

    @cached_property
    def _written(self) -> dict[int, str]:
        return {token: written for written, token in self._tokenizer.get_vocab().items()}

    @cached_property
    def _is_byte_level(self) -> bool:
        decoder = json.loads(definition_of(self._tokenizer) or "{}").get("decoder") or {}
        return any(each["type"] == "ByteLevel" for each in decoder.get("decoders", [decoder]) if "type" in each)


class TokenScores:
    """Of one answer. Without `spell` none are kept."""

    def __init__(self, spell: Spell | None, logprobs_of: LogprobsOf):
        self._spell = spell
        self._logprobs_of = logprobs_of
        self._tokens = 0
        self._waiting: list[ScoredToken] = []

    def add(self, token: int, start: int) -> None:
        """The next token of the answer, whose text begins behind `start` characters."""
        index, self._tokens = self._tokens, self._tokens + 1
        scores = None if self._spell is None else self._logprobs_of(index)
        if self._spell is not None and scores is not None:
            top = tuple((self._spell(each), logp) for each, logp in scores.top)
            self._waiting.append(ScoredToken(self._spell(token), scores.logp, top, start))

    def take(self, characters: int) -> tuple[ScoredToken, ...]:
        """Those whose text begins within the first `characters` of the answer, once each."""
        taken = tuple(each for each in self._waiting if each.start < characters)
        del self._waiting[: len(taken)]
        return taken


def _byte_level_alphabet() -> dict[str, int]:
    """GPT-2's: bytes that are printable in Latin-1 are written as themselves, the others as characters from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("\xa1"), ord("\xac") + 1), *range(ord("\xae"), 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}


_BYTES = _byte_level_alphabet()
