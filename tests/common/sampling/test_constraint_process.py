"""What constraints cost that are made to be costly, and that their processes end with what they are for."""

import gc
import itertools
import json
import math
import random
import socket
import threading
import time
from array import array
from contextlib import suppress

import psutil
import pytest

from common.protocol.constraint import Grammar
from common.protocol.errors import PeerError
from common.protocol.messages import Constraint
from common.sampling import constraint_program
from common.sampling.constraint_process import ConstraintProcess, EndedError, VocabularyProcess
from common.sampling.constraint_program import COMPILING_S, MEMORY_BYTES
from common.sampling.grammar import MOST_KEPT, Grammars
from tests.common.sampling.test_grammar import CONSTRAINTS, END, TOKENIZER, VOCABULARY, walk


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(TOKENIZER, VOCABULARY, {END})


def patterns(count: int, form: str) -> list[str]:
    """Patterns that have each a state of its own for whatever came before: all together double with every one."""
    return [form % index for index in range(1, count + 1)]


def all_of(count: int) -> Constraint:
    schema = {"type": "string", "allOf": [{"pattern": each} for each in patterns(count, "a.{%d}b")]}
    return Constraint(Grammar.JSON_SCHEMA, json.dumps(schema))


LATE = Constraint(Grammar.LARK, f"start: T\nT: /[a-z]{{40}}/ ({' & '.join(patterns(23, '/(.*a.{%d}b.*)?/'))})")
"""Compiled in a millisecond; a mask 30 tokens later takes the library half a minute."""

COSTLY = {
    "patterns of a schema": all_of(21),
    "as many as fit": all_of(1300),
    "patterns of properties": Constraint(
        Grammar.JSON_SCHEMA,
        json.dumps(
            {
                "allOf": [
                    {"type": "object", "properties": {"p": {"type": "string", "pattern": each}}, "required": ["p"]}
                    for each in patterns(30, "a.{%d}b")
                ]
            }
        ),
    ),
    "a grammar's terminals": Constraint(Grammar.LARK, "start: T\nT: " + " & ".join(patterns(30, "/.*a.{%d}b.*/"))),
    "a long regular expression": Constraint(Grammar.REGEX, "a?" * 16_000),
}


class Cost:
    """What is taken meanwhile: seconds of a processor by this process, but for watching, and bytes by the largest of
    those that follow constraints."""

    def __enter__(self):
        self._process, self._began = psutil.Process(), time.process_time()
        self.bytes, self._is_over = 0, threading.Event()
        self._watching = threading.Thread(target=self._watch)
        self._watching.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._watching.join()
        self.seconds = time.process_time() - self._began - self._watching_s

    def _watch(self):
        while not self._is_over.wait(0.02):
            for each in self._process.children(recursive=True):
                with suppress(psutil.Error):
                    if constraint_program.__file__ in each.cmdline():
                        self.bytes = max(self.bytes, each.memory_full_info().uss)
        self._watching_s = time.thread_time()


@pytest.mark.parametrize("name", COSTLY)
def test_what_would_take_minutes_and_gigabytes_to_compile_is_refused(grammars, name):
    assert len(COSTLY[name].text) <= 32_768
    with Cost() as cost, pytest.raises(PeerError, match="takes too long or too much memory to compile; simplify it"):
        grammars(COSTLY[name])
    assert cost.seconds < 1
    assert cost.bytes < 2 * MEMORY_BYTES
    assert walk(grammars(CONSTRAINTS["person"]), random.Random(1))


def test_a_mask_that_would_take_minutes_ends_that_constraint_alone(grammars):
    """And is not tried again, since others wait for each."""
    late, other = grammars(LATE), grammars(CONSTRAINTS["person"])
    answer = TOKENIZER("xy" * 20, add_special_tokens=False)["input_ids"]
    assert late.allowed([]).any()
    with Cost() as cost, pytest.raises(PeerError, match="too complex to go on"):
        late.allowed(answer)
    assert cost.seconds < 1
    assert cost.bytes < 2 * MEMORY_BYTES
    began = time.monotonic()
    for _ in range(50):
        with pytest.raises(PeerError, match="too complex to go on"):
            late.allowed(answer)
    assert time.monotonic() - began < 2
    assert walk(other, random.Random(1)) == walk(grammars(CONSTRAINTS["person"]), random.Random(1))
    assert grammars(LATE).allowed([]).any()


def test_an_answer_that_ends_its_process_ends_no_other_one_under_the_same_constraint(grammars, monkeypatch):
    """However often that happens; and the others share a new process each time."""
    monkeypatch.setattr(ConstraintProcess, "ask", ends_with(666, ConstraintProcess.ask))
    first, second = grammars(CONSTRAINTS["regex"]), grammars(CONSTRAINTS["regex"])
    begun = first.allowed([]).tolist()
    for _ in range(3):
        costly = grammars(CONSTRAINTS["regex"])
        with pytest.raises(PeerError, match="too complex to go on"):
            costly.allowed([666])
        assert first.allowed([]).tolist() == second.allowed([]).tolist() == begun
    assert first._process is second._process
    with pytest.raises(PeerError, match="too complex to go on"):
        costly.allowed([])


def test_an_answer_that_cost_too_much_beside_others_goes_on_alone(grammars, monkeypatch):
    before = grammars(CONSTRAINTS["regex"])
    with monkeypatch.context() as patched:
        patched.setattr(ConstraintProcess, "ask", ends_with(666, ConstraintProcess.ask, times=1))
        allowed = before.allowed([666])
    assert allowed.tolist() == grammars(CONSTRAINTS["regex"]).allowed([666]).tolist()
    assert before._process is not grammars(CONSTRAINTS["regex"])._process


def test_answers_end_as_too_complex_where_their_constraint_cannot_be_compiled_again_in_mid_answer(
    grammars, monkeypatch
):
    """A constraint that no answer has yet may take longer, but here a pass waits."""

    def compile_once(process, grammar, text, most_s):
        if most_s < COMPILING_S:
            raise EndedError
        return compile_(process, grammar, text, most_s)

    compile_ = VocabularyProcess.compile
    monkeypatch.setattr(VocabularyProcess, "compile", compile_once)
    monkeypatch.setattr(ConstraintProcess, "ask", ends_with(666, ConstraintProcess.ask))
    slow = Constraint(Grammar.REGEX, "a{7}")
    costly, other = grammars(slow), grammars(slow)
    for each, answer in ((costly, [666]), (other, [])):
        with pytest.raises(PeerError, match="too complex to go on"):
            each.allowed(answer)
    assert grammars(slow).allowed([]).any()


def ends_with(token, ask, times=math.inf):
    """A process that ends, at most so many times, with a question about an answer that has this token."""
    counted = itertools.count()

    def ask_or_end(process, question):
        is_costly = isinstance(question[1], array) and token in question[1]
        if is_costly and not process.is_gone and next(counted) < times:
            process._peer.shutdown(socket.SHUT_RDWR)
        return ask(process, question)

    return ask_or_end


def descendants() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_processes_end_with_what_they_are_for():
    """A few compiled constraints are kept, and as many as answers have."""
    others = descendants()

    def ours():
        return len([each for each in descendants() if each not in others])

    grammars = Grammars(TOKENIZER, VOCABULARY, {END})
    used = [grammars(Constraint(Grammar.REGEX, "a" * length)) for length in range(1, 2 * MOST_KEPT)]
    assert ours() == 1 + len(used)
    del used
    until(lambda: ours() == 1 + MOST_KEPT)
    del grammars
    until(lambda: ours() == 0)


def until(is_so):
    for _ in range(1000):
        gc.collect()
        if is_so():
            return
        time.sleep(0.01)
    pytest.fail("it has not come")


def test_after_its_processes_are_gone_constraints_are_compiled_anew():
    others = descendants()
    grammars = Grammars(TOKENIZER, VOCABULARY, {END})
    before = grammars(CONSTRAINTS["regex"])
    killed = [each for each in descendants() if each not in others]
    for each in killed:
        each.kill()
    psutil.wait_procs(killed)
    with pytest.raises(PeerError, match="too complex to go on"):
        before.allowed([])
    assert grammars(CONSTRAINTS["regex"]).allowed([]).any()


def test_many_long_answers_under_one_constraint_do_not_end_each_other() -> None:
    """Each is followed in the same process, which has so much memory for all of them."""
    item = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}
    schema = {"type": "array", "items": {**item, "required": ["name", "n"], "additionalProperties": False}}
    follow = Grammars(TOKENIZER, VOCABULARY, {END})
    constraint = Constraint(Grammar.JSON_SCHEMA, json.dumps(schema))
    answer = TOKENIZER.encode("[" + ", ".join(['{"name": "ab", "n": 1}'] * 900))
    for _ in range(45):
        followed = follow(constraint)
        assert followed is not None
        allowed = followed.allowed(answer).nonzero()[0].tolist()
        assert END not in allowed, "it goes on with an item or ends the array"
