"""Threads that need transformers for the first time at once, as drafters of several answers do."""

import subprocess
import sys

import pytest

_AT_ONCE = """
import torch
from functools import partial
from importlib import import_module
from threading import Barrier, Thread

from common.protocol.sampling import Sampling
from common.sampling.processors import Processors
from common.transformers_import import IMPORTING

def locked(module):
    with IMPORTING:
        import_module(module)

ways = [{ways}]
together, failed = Barrier(len(ways)), []

def needing(way):
    together.wait()
    try:
        way()
    except BaseException as error:
        failed.append(repr(error))

threads = [Thread(target=needing, args=(way,)) for way in ways]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
raise SystemExit("; ".join(failed) or 0)
"""
SAMPLED = "lambda: Processors(Sampling(0.7, top_k=5, repetition_penalty=1.1))"
MODEL = "partial(locked, 'common.models.agreement')"
TAIL = "partial(locked, 'common.draft_models.tail')"


@pytest.mark.parametrize(
    "ways", [[SAMPLED] * 4, [SAMPLED, MODEL, SAMPLED, TAIL]], ids=["sampled", "sampled and loaded"]
)
def test_each_gets_it_whole(ways: list[str]) -> None:
    program = _AT_ONCE.format(ways=", ".join(ways))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
