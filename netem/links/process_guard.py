"""Runs a command that dies with its parent: `python -m netem.links.process_guard NAMESPACE PARENT COMMAND...`.

NAMESPACE is the descriptor of a network namespace to run the command in, or `-`; PARENT is a process id. With the
privilege for it the command runs in a pid namespace of its own: the kernel kills all its descendants with that
namespace, even after SIGKILL to this process. Without the privilege this process finds and kills the descendants that
the command leaves behind. The exit code is the command's. Linux only. Knows no link.
"""

import contextlib
import os
import signal
import subprocess
import sys

from netem.links.namespaces import kernel

_NOT_FOUND = 127
_SIGNALLED = 128
_NONE = "-"
_FORWARDED = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def main(namespace: str, parent: str, *command: str) -> int:
    """Returns the exit code."""
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != int(parent):
        return 1  # The parent ended before the kernel was told to watch it.
    if namespace != _NONE:
        kernel.enter_network(int(namespace))
        os.close(int(namespace))
    # Ctrl-C reaches the command itself. A handler, unlike ignoring, is not inherited.
    signal.signal(signal.SIGINT, lambda *_: None)
    # Blocked until there is a process to forward them to; the first process of a pid namespace would lose them.
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    try:
        kernel.unshare(kernel.CLONE_NEWPID | kernel.CLONE_NEWNS)
    except PermissionError:
        kernel.adopt_orphans()
        code = _run(command)
        _end_orphans()
        return code
    return _run_in_pid_namespace(command)


def _run_in_pid_namespace(command: tuple[str, ...]) -> int:
    watched, held = os.pipe()
    init = os.fork()
    if init == 0:
        kernel.die_with_parent(signal.SIGKILL)
        os.close(held)
        os.set_blocking(watched, False)
        with contextlib.suppress(BlockingIOError):
            os.read(watched, 1)
            os._exit(1)  # The end of the pipe: the parent ended before the kernel was told to watch it.
        os.close(watched)
        # A sandbox may refuse; the command then sees the host's process ids, and still dies with its parent.
        with contextlib.suppress(OSError):
            kernel.mount_own_proc()
        os._exit(_run(command))
    os.close(watched)
    _forward_to(init)
    _, status = os.waitpid(init, 0)
    return _exit_code(status)


def _run(command: tuple[str, ...]) -> int:
    """Runs the command and reaps every child that ends meanwhile."""
    try:
        process = subprocess.Popen(command, preexec_fn=_prepare_command)
    except OSError as refusal:
        sys.stderr.write(f"cannot run {command[0]}: {refusal.strerror}\n")
        return _NOT_FOUND
    # Not by Popen, which would reap a command that has ended, and that is waited for below.
    _forward_to(process.pid)
    while True:
        ended, status = os.wait()
        if ended == process.pid:
            return _exit_code(status)


def _prepare_command() -> None:
    kernel.die_with_parent(signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)


def _forward_to(process: int) -> None:
    def forward(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)


def _end_orphans() -> None:
    """Kills until no descendant is left; the children of a killed child become children of this process."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in _children():
                os.kill(child, signal.SIGKILL)
            os.wait()


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listing:
        return [int(child) for child in listing.read().split()]


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _SIGNALLED - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
