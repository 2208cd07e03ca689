"""What ends a process that compiles or follows a constraint, and how it keeps the places of many answers."""

import random
import signal
import socket
import subprocess
import sys
import threading
from array import array
from contextlib import contextmanager
from functools import partial

import pytest
from llguidance import LLTokenizer

from common.models.tokenizer import definition_of
from common.sampling import constraint_program
from common.sampling.constraint_program import MEMORY_BYTES, Answers
from tests.common.sampling.test_grammar import END, TOKENIZER, VOCABULARY


def run(program: str) -> "subprocess.CompletedProcess[str]":
    """It may use what is in the module."""
    begun = f"import runpy, sys; globals().update(runpy.run_path({constraint_program.__file__!r}))\n"
    return subprocess.run([sys.executable, "-c", begun + program], capture_output=True, text=True, timeout=60)


def test_the_system_ends_what_takes_too_long_even_in_native_code():
    ended = run("with _at_most(0.1): sum(range(10**12))")
    assert ended.returncode == -signal.SIGPROF


def test_time_that_is_not_of_a_processor_does_not_count_nor_time_outside():
    ended = run("with _at_most(0.1): time.sleep(0.5)\nwhile time.process_time() < 0.5: pass")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone")
@pytest.mark.parametrize(("part", "is_there"), [(0.5, True), (1.1, False)])
def test_memory_is_limited_beyond_what_is_taken_already(part, is_there):
    taken = f"held = bytes(2 * MEMORY_BYTES)\n_limit_memory()\nbytes(int({part} * MEMORY_BYTES))"
    assert (run(taken).returncode == 0) is is_there
    assert MEMORY_BYTES < 2**27


def test_a_long_answer_has_the_time_to_be_read_again(monkeypatch):
    granted = []

    @contextmanager
    def at_most(seconds):
        granted.append(seconds)
        yield

    monkeypatch.setattr(constraint_program, "_at_most", at_most)
    vocabulary = LLTokenizer(definition_of(TOKENIZER), n_vocab=VOCABULARY, eos_token=[END])
    ours, theirs = socket.socketpair()
    following = threading.Thread(target=constraint_program._follow, args=(theirs, vocabulary, {}, VOCABULARY, [END]))
    with ours, theirs:
        following.start()
        constraint_program.ask(ours, ("regex", "a*", 1.5))
        for length in (0, 120_000):
            constraint_program.ask(ours, (length, array("i", [END] * length), None))
        ours.shutdown(socket.SHUT_RDWR)
        following.join()
    compiling, short, long = granted
    assert compiling == 1.5
    assert short < compiling
    assert long - short >= 120_000 * 1.4e-6, "as long as tokens of eleven characters take"


def test_more_answers_than_are_kept_are_followed_all_the_same():
    vocabulary = LLTokenizer(definition_of(TOKENIZER), n_vocab=VOCABULARY, eos_token=[END])
    compile_ = partial(constraint_program._compile, vocabulary, {}, "regex", "(yes|no|perhaps)( [0-9]{1,3}){0,3}")
    rng, answers = random.Random(4), Answers(compile_(), compile_, VOCABULARY, [END])
    texts = ["", "yes", "no 1", "no 12 3", "perhaps 100 2", "never"]
    asked = [array("i", TOKENIZER(text, add_special_tokens=False)["input_ids"]) for text in texts]
    alone = [Answers(compile_(), compile_, VOCABULARY, [END]).allowed(0, answer) for answer in asked]
    assert len(set(alone)) > 3
    for _ in range(10 * constraint_program._MOST_PARSED):
        which = rng.randrange(len(asked))
        assert answers.allowed(rng.randrange(2 * constraint_program._MOST_PARSED), asked[which]) == alone[which]
    assert len(answers._parsed) == constraint_program._MOST_PARSED
