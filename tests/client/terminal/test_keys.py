"""client.terminal.keys: a key is read at once while a program listens, and the terminal is restored afterwards."""

import asyncio
import os
import pty
import signal
import termios
from types import SimpleNamespace

import pytest

from client.terminal.keys import Keys


@pytest.fixture
def terminal(monkeypatch):
    """The user's end and the program's end of a pseudo-terminal."""
    person, program = pty.openpty()
    monkeypatch.setattr("client.terminal.keys.sys", SimpleNamespace(stdin=SimpleNamespace(fileno=lambda: program)))
    yield person, program
    os.close(person)
    os.close(program)


async def test_a_key_is_heard_without_a_line(terminal):
    person, _ = terminal
    pressed = asyncio.Event()
    with Keys(pressed.set) as keys:
        keys.listen(True)
        os.write(person, b"r")
        async with asyncio.timeout(5):
            await pressed.wait()


async def test_what_is_typed_while_nobody_listens_stays_for_the_next_question(terminal):
    person, program = terminal
    pressed = asyncio.Event()
    with Keys(pressed.set) as keys:
        keys.listen(False)
        os.write(person, b"next\n")
        await asyncio.sleep(0.05)
    assert not pressed.is_set()
    assert os.read(program, 100) == b"next\n"


async def test_the_terminal_is_given_back_as_it_was(terminal):
    _, program = terminal
    before = termios.tcgetattr(program)
    with Keys(lambda: None) as keys:
        keys.listen(True)
        keys.listen(True)
        listening = termios.tcgetattr(program)
        assert not listening[3] & (termios.ICANON | termios.ECHO)
        assert listening[3] & termios.ISIG, "Ctrl-C stays what it is"
        keys.listen(False)
        typing = termios.tcgetattr(program)
        assert (typing[3] & termios.ICANON, typing[3] & termios.ECHO) == (termios.ICANON, 0), "lines, and unseen"
        keys.listen(True)
    assert termios.tcgetattr(program) == before


@pytest.mark.parametrize("is_ignored", [False, True])
async def test_sigterm_does_what_it_did_with_the_terminal_as_it_was(terminal, is_ignored):
    _, program = terminal
    ended = []

    def end(number, frame):
        ended.append(termios.tcgetattr(program))

    usual = signal.signal(signal.SIGTERM, signal.SIG_IGN if is_ignored else end)
    try:
        before = termios.tcgetattr(program)
        with Keys(lambda: None) as keys:
            keys.listen(True)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0)
        assert signal.getsignal(signal.SIGTERM) is (signal.SIG_IGN if is_ignored else end)
    finally:
        signal.signal(signal.SIGTERM, usual)
    assert ended == ([] if is_ignored else [before])


@pytest.mark.parametrize("is_gone", [False, True])
def test_sigterm_is_heard_in_the_background_and_without_a_terminal(terminal, monkeypatch, is_gone):
    """The kernel stops who sets a terminal from the background, unless SIGTTOU is blocked."""
    blocked, ended = [], []

    def set_terminal(*_):
        blocked.append(signal.SIGTTOU in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        if is_gone:
            raise termios.error(5, "Input/output error")

    usual = signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        with Keys(lambda: None), monkeypatch.context() as patch:
            patch.setattr(termios, "tcsetattr", set_terminal)
            os.kill(os.getpid(), signal.SIGTERM)
            assert signal.getsignal(signal.SIGTERM) is not usual
    finally:
        signal.signal(signal.SIGTERM, usual)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    assert (blocked, ended) == ([True], [True])
