"""Constraints of answers, which llguidance compiles and follows in processes of their own.

What may live here: which processes there are, what is asked of them, and how their faults are told. It may not know
logits, sessions or which end asks.
"""

import itertools
from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from common.models.tokenizer import Tokenizer, definition_of
from common.protocol.constraint import ONE_WAY_OF_JSON, Grammar, check_length
from common.protocol.errors import PeerError
from common.protocol.messages import Constraint, FailureCode
from common.protocol.plain import plain
from common.sampling.constraint_process import ConstraintProcess, EndedError, GoneError, VocabularyProcess
from common.sampling.constraint_program import ANSWERING_S, COMPILING_S, LlguidanceError

MOST_KEPT = 4
"""Compiled constraints that no answer has, as the next request usually has one of the last ones."""

_UNREADABLE = "answers of this target cannot be constrained: llguidance cannot read its tokenizer"
_NO_PROGRAM = "answers cannot be constrained now: the program that compiles constraints does not run; try again"
_TOO_COMPLEX = "the constraint is too complex to go on with this answer; simplify it, above all its repeats of repeats"
_TOO_COSTLY = (
    "the {name} for the answer takes too long or too much memory to compile; simplify it, above all patterns that must "
    "match together and repeats of repeats"
)

_DEAD_END = "the constraint lets this answer neither end nor go on: a part of it matches no text; mend or remove it"
_SAYS_DEAD_END = "NoExtension"
"""With which the library's error begins then."""

_NO_DEFINITION = "answers of this target cannot be constrained: its tokenizer is not one of the tokenizers library's"

_LONGEST_REASON = 300  # characters of what the library objects to

_NAMES = {Grammar.JSON_SCHEMA: "JSON schema", Grammar.REGEX: "regular expression", Grammar.LARK: "grammar"}


class GrammarConstraint:
    """An `AnswerConstraint`; `number` is no other's of this process.

    Answers under one constraint share its process. An answer whose question ends it goes on in a process that it has
    alone, and fails if it ends that too; the others go on in a new one that they share.
    """

    def __init__(
        self,
        process: ConstraintProcess,
        number: int,
        vocab_size: int,
        compile_again: Callable[[bool], ConstraintProcess],
    ):
        """`compile_again` is told whether the process is for this answer alone, and raises PeerError."""
        self._process = process
        self._is_alone = False
        self._compile_again = compile_again
        self._number = number
        self._vocab_size = vocab_size

    def allowed(self, answer: Sequence[int]) -> NDArray[np.bool_]:
        """Raises PeerError where the parser gives up or takes too long."""
        bits = np.frombuffer(self._ask(answer), np.uint8)
        return np.unpackbits(bits, count=self._vocab_size, bitorder="little").astype(np.bool_)

    def forced(self, answer: Sequence[int], most: int) -> tuple[int, ...]:
        return tuple(array("i", self._ask(answer, most)))

    def _ask(self, answer: Sequence[int], most: int | None = None) -> bytes:
        try:
            return self._process.ask((self._number, array("i", answer), most))
        except LlguidanceError as error:
            is_dead_end = str(error).startswith(_SAYS_DEAD_END)
            raise PeerError(_DEAD_END if is_dead_end else _TOO_COMPLEX, FailureCode.INVALID) from error
        except GoneError as error:
            if self._is_alone:
                raise PeerError(_TOO_COMPLEX, FailureCode.INVALID) from error
            self._is_alone = isinstance(error, EndedError)
            self._process = self._compile_again(self._is_alone)
            return self._ask(answer, most)


class Grammars:
    """A `Constrain`: compiles constraints for a target with this tokenizer and `vocab_size` logits. The vocabulary is
    read for the first constraint. One that is too long is refused here, whoever asks, because compiling it could end
    its process without a word of why. May be called from any thread."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, end_tokens: Collection[int]):
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._end_tokens = sorted(end_tokens)
        self._vocabulary: VocabularyProcess | None = None
        self._in_use: WeakValueDictionary[Constraint, ConstraintProcess] = WeakValueDictionary()
        self._kept: OrderedDict[Constraint, ConstraintProcess] = OrderedDict()
        self._numbers = itertools.count()
        self._lock = Lock()
        self._starting = Lock()

    def __call__(self, constraint: Constraint | None) -> GrammarConstraint | None:
        if constraint is None:
            return None
        check_length(constraint)
        process = self._shared(constraint, COMPILING_S)
        compile_again = partial(self._compile_again, constraint)
        return GrammarConstraint(process, next(self._numbers), self._vocab_size, compile_again)

    def _shared(self, constraint: Constraint, most_s: float) -> ConstraintProcess:
        """The process of all answers under it. Raises as `_compile` does."""
        with self._lock:
            process = self._in_use.get(constraint)
        if process is None or process.is_gone:
            # Not under the lock, which others need for what is compiled already.
            process = self._compile(constraint, most_s)
        with self._lock:
            self._in_use[constraint] = self._kept[constraint] = process
            self._kept.move_to_end(constraint)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return process

    def _compile_again(self, constraint: Constraint, is_alone: bool) -> ConstraintProcess:
        """In mid-answer, where a pass may wait for it. Raises PeerError."""
        if self._vocabulary is None or self._vocabulary.is_gone:  # to read it would take too long
            raise PeerError(_TOO_COMPLEX, FailureCode.INVALID)
        compile_ = self._compile if is_alone else self._shared
        try:
            return compile_(constraint, ANSWERING_S)
        except PeerError as error:  # it was compiled before, with more time; of the answer this is true
            raise PeerError(_TOO_COMPLEX, FailureCode.INVALID) from error

    def _compile(self, constraint: Constraint, most_s: float) -> ConstraintProcess:
        """Raises PeerError, which says what the library objects to."""
        vocabulary, name = self._read_vocabulary(), _NAMES[Grammar(constraint.grammar)]
        try:
            return vocabulary.compile(constraint.grammar, constraint.text, most_s)
        except LlguidanceError as error:
            reason = plain(" ".join(str(error).split()), _LONGEST_REASON)
            raise PeerError(f"the {name} for the answer cannot be used: {reason}", FailureCode.INVALID) from error
        except GoneError as error:
            raise PeerError(_TOO_COSTLY.format(name=name), FailureCode.INVALID) from error

    def _read_vocabulary(self) -> VocabularyProcess:
        with self._starting:
            if self._vocabulary is not None and not self._vocabulary.is_gone:
                return self._vocabulary
            definition = definition_of(self._tokenizer)
            if definition is None:
                raise PeerError(_NO_DEFINITION, FailureCode.INVALID)
            # Some tokenizers know more tokens than their model has logits; what may follow is cut to the logits.
            known = max(self._vocab_size, 1 + max(self._tokenizer.get_vocab().values()))
            try:
                self._vocabulary = VocabularyProcess(
                    definition, known, self._vocab_size, self._end_tokens, ONE_WAY_OF_JSON
                )
            except LlguidanceError as error:
                raise PeerError(_UNREADABLE, FailureCode.INVALID) from error
            except GoneError as error:
                raise PeerError(_NO_PROGRAM, FailureCode.INTERNAL) from error
            return self._vocabulary
