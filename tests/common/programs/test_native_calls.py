"""common.programs.native_calls: a native call that ignores Ctrl-C ends with the second one; the first is unchanged."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from common.programs.native_calls import ended_by_second_interrupt

pytestmark = pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="signals of another kind")

# The normaliser turns one letter into many millions, in a call that runs no Python signal handler. Its length does not
# limit this test: the process ends long before, or the test fails.
_STUCK = """
from tokenizers import Tokenizer, models, normalizers
from client.text import raw_tokens

tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("a", "aa")] * 26)
print("calling", flush=True)
raw_tokens(lambda text: {"input_ids": tokenizer.encode(text).ids}, "a")
"""


def test_a_tokenizer_that_hears_nothing_ends_with_the_second_interrupt():
    with subprocess.Popen([sys.executable, "-c", _STUCK], stdout=subprocess.PIPE, text=True) as stuck:
        try:
            assert stuck.stdout.readline() == "calling\n"
            while stuck.poll() is None:
                stuck.send_signal(signal.SIGINT)
                with_patience(stuck)
        finally:
            stuck.kill()
        assert stuck.returncode == -signal.SIGINT


def with_patience(process: subprocess.Popen) -> None:
    try:
        process.wait(0.2)
    except subprocess.TimeoutExpired:
        return


@pytest.fixture
def heard(monkeypatch):
    """How often Python's handler ran."""
    count = []
    before = signal.signal(signal.SIGINT, lambda *_: count.append(1))
    yield count
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_handled_as_ever_and_so_is_one_behind_the_call(heard):
    for times in (1, 2, 3):
        with ended_by_second_interrupt(), ended_by_second_interrupt():
            interrupt()
        assert len(heard) == times
    interrupt()
    assert len(heard) == 4


def test_several_threads_call_at_once(heard):
    inside, leave = threading.Barrier(3), threading.Barrier(3)

    def call() -> None:
        with ended_by_second_interrupt():
            inside.wait()
            leave.wait()

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait()
    interrupt()
    leave.wait()
    for thread in threads:
        thread.join()
    interrupt()
    assert len(heard) == 2


def test_a_handler_that_is_set_during_the_call_stays(heard):
    later = []
    with ended_by_second_interrupt():
        signal.signal(signal.SIGINT, lambda *_: later.append(1))
        interrupt()
    interrupt()
    assert len(later) == 2
