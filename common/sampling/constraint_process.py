"""Starts the program in which constraints are compiled and followed, and asks it. It may not know what a constraint or
an answer is."""

import socket
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from common.sampling import constraint_program
from common.sampling.constraint_program import ask

_PATIENCE_S = 60.0
"""For a reply, in seconds. A process that computes too long has been ended well before, even on a busy machine."""


class GoneError(Exception):
    """A process has ended: it took too long or too much memory, or somebody ended it."""


class EndedError(GoneError):
    """It has ended with this question, and not before."""


class ConstraintProcess:
    """One constraint, compiled in a process of its own, which ends with this. May be asked from any thread."""

    def __init__(self, peer: socket.socket):
        self._peer = peer
        self._lock = Lock()
        self.is_gone = False
        weakref.finalize(self, peer.close)

    def ask(self, question: object) -> bytes:
        """Raises LlguidanceError for what the library objects to, and GoneError where the process has ended: EndedError
        where it was this question that it did not answer any more."""
        with self._lock:
            if self.is_gone:
                raise GoneError
            try:
                return ask(self._peer, question)
            except (EOFError, OSError) as error:
                self.is_gone = True
                self._peer.close()
                raise EndedError from error


class VocabularyProcess:
    """A process that has read a vocabulary, from which those of constraints are forked."""

    def __init__(
        self, definition: str, known: int, vocab_size: int, ends: Sequence[int], json_options: Mapping[str, Any]
    ):
        """`known` tokens are in the vocabulary, of which the first `vocab_size` may follow. Raises LlguidanceError for
        a vocabulary that the library cannot read, and GoneError where the program does not run."""
        self._control, theirs = socket.socketpair()
        with theirs:
            self._program = subprocess.Popen(
                (sys.executable, "-P", constraint_program.__file__),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that no Ctrl-C reaches it before it has begun to ignore that
            )
        weakref.finalize(self, _end, self._program, self._control)
        self._control.settimeout(_PATIENCE_S)
        try:
            ask(self._control, (definition, known, vocab_size, list(ends), dict(json_options)))
        except (EOFError, OSError) as error:
            raise GoneError from error

    @property
    def is_gone(self) -> bool:
        return self._program.poll() is not None

    def compile(self, grammar: str, text: str, most_s: float) -> ConstraintProcess:
        """Raises LlguidanceError for what cannot be compiled, and GoneError where that takes too much memory, or more
        than `most_s` seconds of a processor."""
        ours, theirs = socket.socketpair()
        ours.settimeout(_PATIENCE_S)
        compiled = ConstraintProcess(ours)
        with theirs:
            try:
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
            except OSError as error:
                raise GoneError from error
        compiled.ask((str(grammar), text, most_s))  # no type of ours, which it would import
        return compiled


def _end(program: "subprocess.Popen[bytes]", control: socket.socket) -> None:
    control.close()
    program.kill()
    program.wait()
