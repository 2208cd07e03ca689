"""The program in which llguidance runs: it reads a vocabulary, and forks a process for each constraint, which compiles
it and says which tokens may follow an answer.

No limit of the library's own bounds what a constraint costs: it counts no work within a derivative of a regular
expression, which doubles with every pattern that must match together with others. A few hundred characters keep it
busy for ever, while it compiles or in mid-answer, and nothing interrupts native code. So the system ends a process that
takes too long or too much memory. It is run by its path, and may not import anything of ours, so that it is small.
"""

import os
import pickle
import resource
import signal
import socket
import struct
import sys
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

COMPILING_S = 2.0
"""Of a processor. A schema of the greatest length takes 0.07 s over 128,000 tokens."""

ANSWERING_S = 0.25
"""The same for a question about an answer, which a pass of the target waits for, and for compiling once more in
mid-answer. The slowest mask of such a schema takes 7 ms; an ambiguous grammar was seen to take 0.1 s."""

READING_S = 5e-6
"""In addition, for each token of the answer, as all of it may have to be read again: at 0.5 us a token of four
characters, and 1.4 us one of eleven."""

_FORCING_S = 0.1
"""After which no more tokens without a choice are looked for: they save time and need not be all."""

MEMORY_BYTES = 64 << 20
"""Beside the vocabulary, which all share. A schema of the greatest length takes 8 MB."""

_MOST_PARSED = 64
"""Parsed answers that are kept. Of any other one all tokens are read again."""

_MOST_TOKENS = 100_000
"""Of all parsed answers that are kept, at some 150 bytes each: they share `MEMORY_BYTES`."""

_DONE, _FAULT = b"+", b"-"
_LENGTH = struct.Struct("!I")


class LlguidanceError(Exception):
    """What the library objects to in a constraint, an answer or a vocabulary."""


def ask(peer: socket.socket, question: object) -> bytes:
    """Raises LlguidanceError for what the library objects to, EOFError where the process has ended, and OSError where
    it does not answer."""
    _send(peer, pickle.dumps(question))
    reply = _receive(peer)
    if not reply:
        raise EOFError
    if reply[:1] == _FAULT:
        raise LlguidanceError(reply[1:].decode())
    return reply[1:]


def _send(peer: socket.socket, data: bytes) -> None:
    peer.sendall(_LENGTH.pack(len(data)) + data)


def _receive(peer: socket.socket) -> bytes:
    """Nothing where the other end is closed."""
    length = _exactly(peer, _LENGTH.size)
    return _exactly(peer, *_LENGTH.unpack(length)) if length else b""


def _fault_of(error: Exception) -> bytes:
    return _FAULT + str(error).encode(errors="replace")


def _exactly(peer: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        part = peer.recv(count - len(received))
        if not part:
            return b""
        received += part
    return bytes(received)


@dataclass(slots=True)
class _Parsed:
    """How far an answer has been followed."""

    matcher: "LLMatcher"
    tokens: "array[int]" = field(default_factory=lambda: array("i"))


class Answers:
    """The answers under one constraint. Copies of a matcher share its limits; where these are used up, one that
    `compile_again` makes goes on alone, so that only the answer decides how far it can go."""

    def __init__(
        self, matcher: "LLMatcher", compile_again: "Callable[[], LLMatcher]", vocab_size: int, ends: Sequence[int]
    ):
        self._matcher = matcher
        self._compile_again = compile_again
        self._bytes = (vocab_size + 7) // 8
        self._all = (1 << vocab_size) - 1
        self._ends = frozenset(ends)
        self._end_bits = sum(1 << token for token in self._ends)
        self._parsed: OrderedDict[int, _Parsed] = OrderedDict()

    def allowed(self, number: int, answer: "array[int]") -> bytes:
        """Which tokens may follow the answer of that number, one bit for each, the lowest first. An end token where
        nothing else may come. Raises LlguidanceError where the parser gives up."""
        return self._allowed(number, answer).to_bytes(self._bytes, "little")

    def forced(self, number: int, answer: "array[int]", most: int) -> bytes:
        """The tokens behind it that leave no choice, as an array's bytes. Raises as `allowed` does."""
        found, until = array("i"), time.process_time() + _FORCING_S
        while len(found) < most and not {*answer[-1:], *found[-1:]} & self._ends:
            bits = self._allowed(number, answer + found)
            if bits & (bits - 1) or time.process_time() > until:
                break
            found.append(bits.bit_length() - 1)
        return found.tobytes()

    def _allowed(self, number: int, answer: "array[int]") -> int:
        parsed = self._parsed.pop(number, None) or _Parsed(self._matcher.deep_copy())
        bits = self._behind(parsed, answer)
        if bits is None:
            parsed = _Parsed(self._compile_again())
            bits = self._behind(parsed, answer)
        if bits is None:
            raise LlguidanceError(parsed.matcher.get_error())
        self._parsed[number] = parsed
        while len(self._parsed) > 1 and self._are_too_many():
            self._parsed.popitem(last=False)
        return bits or self._end_bits

    def _are_too_many(self) -> bool:
        tokens = sum(len(parsed.tokens) for parsed in self._parsed.values())
        return len(self._parsed) > _MOST_PARSED or tokens > _MOST_TOKENS

    def _behind(self, parsed: _Parsed, answer: "array[int]") -> int | None:
        """None where the parser gives up; nothing behind what the constraint forbids."""
        keep = _common(parsed.tokens, answer)
        if keep < len(parsed.tokens):
            parsed.matcher.rollback(len(parsed.tokens) - keep)
            del parsed.tokens[keep:]
        fresh = answer[keep:]
        taken = parsed.matcher.try_consume_tokens(fresh.tolist())
        parsed.tokens += fresh[:taken]
        if parsed.matcher.is_error():
            return None
        if taken < len(fresh):
            return 0
        bits = int.from_bytes(parsed.matcher.compute_bitmask(), "little") & self._all
        return None if parsed.matcher.is_error() else bits


def _common(one: "array[int]", other: "array[int]") -> int:
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(index for index in range(shorter) if one[index] != other[index])


def _compile(vocabulary: "LLTokenizer", json_options: Mapping[str, Any], grammar: str, text: str) -> "LLMatcher":
    """Raises LlguidanceError or ValueError for what cannot be compiled."""
    from llguidance import LLMatcher

    compilers: dict[str, Callable[[str], str]] = {
        "json_schema": lambda schema: LLMatcher.grammar_from_json_schema(schema, overrides=dict(json_options)),  # type: ignore[arg-type]
        "regex": LLMatcher.grammar_from_regex,
        "lark": LLMatcher.grammar_from_lark,
    }
    matcher = LLMatcher(vocabulary, compilers[grammar](text), log_level=0)
    fault = matcher.get_error()
    if not fault:
        matcher.compute_bitmask()  # which finds out whether any token may come
        fault = "it matches no answer" if matcher.is_stopped() and not matcher.is_accepting() else ""
    if fault:
        raise LlguidanceError(fault)
    return matcher


def _follow(
    peer: socket.socket,
    vocabulary: "LLTokenizer",
    json_options: Mapping[str, Any],
    vocab_size: int,
    ends: Sequence[int],
) -> None:
    """Compiles the constraint that comes first, within the time that comes with it, and answers questions about it
    until the other end is closed."""
    if not (first := _receive(peer)):
        return
    grammar, text, most_s = pickle.loads(first)

    def compile_() -> "LLMatcher":
        return _compile(vocabulary, json_options, grammar, text)

    try:
        with _at_most(most_s):
            answers = Answers(compile_(), compile_, vocab_size, ends)
    except (LlguidanceError, ValueError) as error:
        _send(peer, _fault_of(error))
        return
    _send(peer, _DONE)
    while question := _receive(peer):
        number, answer, most = pickle.loads(question)
        try:
            with _at_most(ANSWERING_S + READING_S * len(answer)):
                found = answers.allowed(number, answer) if most is None else answers.forced(number, answer, most)
        except (LlguidanceError, ValueError) as error:
            _send(peer, _fault_of(error))
        else:
            _send(peer, _DONE + found)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Within the block, the system ends this process once it has taken so many seconds of a processor."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Elsewhere than on Linux the time alone bounds it.
    with suppress(FileNotFoundError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most, (_, allowed) = pages * resource.getpagesize() + MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)
        if allowed == resource.RLIM_INFINITY or most < allowed:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    # Whoever started it decides when it ends, by closing the other end of its standard input.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(each, signal.SIG_IGN)
    from llguidance import LLTokenizer

    control = socket.socket(fileno=sys.stdin.fileno())
    if not (first := _receive(control)):
        return
    definition, known, vocab_size, ends, json_options = pickle.loads(first)
    try:
        vocabulary = LLTokenizer(definition, n_vocab=known, eos_token=ends)
    except ValueError as error:
        _send(control, _fault_of(error))
        return
    _send(control, _DONE)
    while handles := socket.recv_fds(control, 1, 1)[1]:
        if os.fork() == 0:
            try:
                control.close()
                _limit_memory()
                _follow(socket.socket(fileno=handles[0]), vocabulary, json_options, vocab_size, ends)
            finally:
                os._exit(0)
        os.close(handles[0])


if __name__ == "__main__":
    main()
