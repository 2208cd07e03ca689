"""Tests of `tests.programs`: the modules that it imports ahead exist, and a program's end is reported."""

from importlib.util import find_spec
from subprocess import PIPE

import pytest

from tests.programs import IMPORTED, Program


@pytest.mark.parametrize("module", IMPORTED)
def test_what_is_imported_ahead_exists(module):
    assert find_spec(module) is not None


def test_a_program_says_what_it_says_and_ends_as_it_ends():
    with Program("outrider", "config", "nothing", stdout=PIPE, stderr=PIPE) as program:
        out, err = program.communicate(timeout=60)
        assert (program.wait(), out) == (2, "")
        assert err.startswith("outrider: there is no command 'nothing'")


def test_a_program_that_is_killed_says_by_what():
    with Program("outriderd", "serve", "--target", "demo", "--listen", "127.0.0.1:0", stderr=PIPE) as program:
        program.kill()
        assert program.wait(60) == -9
