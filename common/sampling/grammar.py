"""Constraints of answers, compiled by llguidance for one tokenizer.

What may live here: compiling, and the tokens that may follow. It may not know logits, sessions or which end asks.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from common.models.tokenizer import Tokenizer, definition_of
from common.protocol.constraint import ONE_WAY_OF_JSON, Grammar, check_length
from common.protocol.errors import PeerError
from common.protocol.messages import Constraint, FailureCode
from common.protocol.plain import plain
from common.protocol.prefix import common_prefix

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_KEPT = 16
"""Compiled constraints, as the next request usually has one of the last ones. A large schema takes some 40 MB."""

_UNREADABLE = "answers of this target cannot be constrained: llguidance cannot read its tokenizer"
_TOO_COMPLEX = "the constraint is too complex to go on with this answer; simplify it, above all its repeats of repeats"

_DEAD_END = "the constraint lets this answer neither end nor go on: a part of it matches no text; mend or remove it"
_SAYS_DEAD_END = "NoExtension"
"""With which the library's error begins then."""

_NO_DEFINITION = "answers of this target cannot be constrained: its tokenizer is not one of the tokenizers library's"

_LONGEST_REASON = 300  # characters of what the library objects to

_NAMES = {Grammar.JSON_SCHEMA: "JSON schema", Grammar.REGEX: "regular expression", Grammar.LARK: "grammar"}


class GrammarConstraint:
    """An `AnswerConstraint` that remembers the tokens it was last asked about, and goes on from those. `matcher` shares
    its limits with others of the same constraint; where these are used up, one that `compile_again` makes goes on
    alone, so that only the answer decides how far it can go."""

    def __init__(
        self,
        matcher: "LLMatcher",
        compile_again: "Callable[[], LLMatcher]",
        vocab_size: int,
        end_tokens: frozenset[int],
    ):
        self._matcher = matcher
        self._compile_again = compile_again
        self._vocab_size = vocab_size
        self._end_tokens = end_tokens
        self._matched: list[int] = []
        self._lock = Lock()

    def allowed(self, answer: Sequence[int]) -> NDArray[np.bool_]:
        """Raises PeerError where the parser gives up."""
        with self._lock:
            allowed = self._allowed(answer)
            if allowed is None:
                self._matcher, self._matched = self._compile_again(), []
                allowed = self._allowed(answer)
        if allowed is None:
            is_dead_end = self._matcher.get_error().startswith(_SAYS_DEAD_END)
            raise PeerError(_DEAD_END if is_dead_end else _TOO_COMPLEX, FailureCode.INVALID)
        return allowed if allowed.any() else self._ends

    def forced(self, answer: Sequence[int], most: int) -> tuple[int, ...]:
        found: list[int] = []
        while len(found) < most and not {*answer[-1:], *found[-1:]} & self._end_tokens:
            left = np.flatnonzero(self.allowed([*answer, *found]))
            if len(left) > 1:
                break
            found += left.tolist()
        return tuple(found)

    @cached_property
    def _ends(self) -> NDArray[np.bool_]:
        ends = np.zeros(self._vocab_size, np.bool_)
        ends[list(self._end_tokens)] = True
        return ends

    def _allowed(self, answer: Sequence[int]) -> NDArray[np.bool_] | None:
        """None where the parser gives up; nothing behind what the grammar forbids."""
        keep = common_prefix(self._matched, answer)
        if keep < len(self._matched):
            self._matcher.rollback(len(self._matched) - keep)
            del self._matched[keep:]
        fresh = list(answer[keep:])
        taken = self._matcher.try_consume_tokens(fresh)
        self._matched += fresh[:taken]
        if self._matcher.is_error():
            return None
        if taken < len(fresh):
            return np.zeros(self._vocab_size, np.bool_)
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            return None
        return np.unpackbits(bits, count=self._vocab_size, bitorder="little").astype(np.bool_)


class Grammars:
    """A `Constrain`: compiles constraints for a target with this tokenizer and `vocab_size` logits. The library is
    imported, and the vocabulary read, for the first constraint. One that is too long is refused here, whoever asks,
    because compiling it could end the process. May be called from any thread."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, end_tokens: Collection[int]):
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._end_tokens = frozenset(end_tokens)
        self._compiled: OrderedDict[Constraint, LLMatcher] = OrderedDict()
        self._lock = Lock()

    def __call__(self, constraint: Constraint | None) -> GrammarConstraint | None:
        if constraint is None:
            return None
        check_length(constraint)
        with self._lock:
            known = self._compiled.get(constraint)
        # Not under the lock, which others need for what is compiled already.
        compiled = known or self._compile(constraint)
        with self._lock:
            self._compiled[constraint] = compiled
            self._compiled.move_to_end(constraint)
            if len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
            matcher = compiled.deep_copy()
        again = partial(self._compile, constraint)
        return GrammarConstraint(matcher, again, self._vocab_size, self._end_tokens)

    @cached_property
    def _vocabulary(self) -> "LLTokenizer":
        from llguidance import LLTokenizer

        definition = definition_of(self._tokenizer)
        if definition is None:
            raise PeerError(_NO_DEFINITION, FailureCode.INVALID)
        # Some tokenizers know more tokens than their model has logits; what may follow is cut to the logits.
        known = max(self._vocab_size, 1 + max(self._tokenizer.get_vocab().values()))
        try:
            return LLTokenizer(definition, n_vocab=known, eos_token=sorted(self._end_tokens))
        except ValueError as error:
            raise PeerError(_UNREADABLE, FailureCode.INVALID) from error

    def _compile(self, constraint: Constraint) -> "LLMatcher":
        """Raises PeerError, which says what the library objects to."""
        from llguidance import LLMatcher

        compilers: dict[str, Callable[[str], str]] = {
            Grammar.JSON_SCHEMA: lambda text: LLMatcher.grammar_from_json_schema(text, overrides=dict(ONE_WAY_OF_JSON)),  # type: ignore[arg-type]
            Grammar.REGEX: LLMatcher.grammar_from_regex,
            Grammar.LARK: LLMatcher.grammar_from_lark,
        }
        vocabulary = self._vocabulary
        try:
            matcher = LLMatcher(vocabulary, compilers[constraint.grammar](constraint.text))
            fault = matcher.get_error()
            if not fault:
                matcher.compute_bitmask()  # which finds out whether any token may come
                fault = "it matches no answer" if matcher.is_stopped() and not matcher.is_accepting() else ""
        except ValueError as error:
            fault = str(error)
        if fault:
            name, reason = _NAMES[Grammar(constraint.grammar)], plain(" ".join(fault.split()), _LONGEST_REASON)
            raise PeerError(f"the {name} for the answer cannot be used: {reason}", FailureCode.INVALID)
        return matcher
