"""The main program of the sandbox's process: it drops privileges, sets limits, and then runs the given program.

What may live here: the limits and refusals that a process sets itself, and its report. `sandbox` starts this file by
its
path, in an interpreter without our packages: it may import the standard library alone. The request comes on standard
input as JSON; the report goes to standard error, a line `ready` before the program runs and a line with the outcome
after it. The process sets its own limits, because code between fork and exec is unsafe beside torch's threads.
"""

import _thread
import ctypes
import json
import os
import resource
import sys
import traceback
import types
from collections.abc import Sequence
from typing import Any

READY = "ready"
PASSED = "passed"
FAILED = "failed"
OUT_OF_MEMORY = "memory"
ERROR_CHARACTERS = 300

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_CLONE_NEWNS = 0x00020000
_MS_BIND = 0x1000
_MS_REC_PRIVATE = 0x4000 | 0x40000
_MOUNT_SETATTR = 442  # the same number on every architecture
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1

_REFUSED = (
    "socket.",
    "subprocess.",
    "ctypes.",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.system",
    "os.kill",
    "resource.",
)
"""Prefixes of the audit events that are refused."""

_CHANGED_PATHS = {
    "os.chmod": 1,
    "os.chown": 1,
    "os.link": 2,
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rename": 2,
    "os.rmdir": 1,
    "os.setxattr": 1,
    "os.symlink": 2,
    "os.truncate": 1,
    "os.utime": 1,
    "shutil.rmtree": 1,
    "sqlite3.connect": 1,
}
"""By audit event, how many of its first arguments are paths that it changes."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "cleared", "propagation", "namespace")]


def leave_network_and_files(folder: str) -> bool:
    """Moves this process into namespaces without a network, in which only `folder` can be written.

    False where the system does not allow all of that; what it did allow stays in force.
    """
    libc = ctypes.CDLL(None)
    # In a user namespace of its own a process of root has no more power over this system than any other.
    if all(libc.unshare(user | _CLONE_NEWNET | _CLONE_NEWNS) for user in (_CLONE_NEWUSER, 0)):
        return False
    path = os.fsencode(folder)
    # A mount that was still shared would appear in the whole system.
    if libc.mount(None, b"/", None, _MS_REC_PRIVATE, None) or libc.mount(path, path, None, _MS_BIND, None):
        return False
    read_only = _MountAttributes(set=_MOUNT_ATTR_RDONLY)
    writable = _MountAttributes(cleared=_MOUNT_ATTR_RDONLY)
    size = ctypes.sizeof(_MountAttributes)
    failed = libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, ctypes.byref(read_only), size
    ) or libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, path, 0, ctypes.byref(writable), size)
    os.chdir(folder)  # until now we stood below the mount
    return not failed


def set_limits(memory_bytes: int, cpu_seconds: int, file_bytes: int) -> None:
    """Limits address space, processor time (SIGXCPU), the size of each file, processes and core dumps."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    # At the hard limit, one second later, the kernel kills the process with SIGKILL.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def refuse_outside(folder: str) -> None:
    """Installs an audit hook that refuses networks, processes, threads and changes outside `folder`, with
    PermissionError."""
    home = os.path.realpath(folder)

    def is_ours(path: Any) -> bool:
        if isinstance(path, int):  # a descriptor, refused or not when it was opened
            return True
        real = os.path.realpath(os.fsdecode(path))
        return real == os.devnull or os.path.commonpath((home, real)) == home

    def refuse_thread(*_: Any) -> None:
        raise PermissionError("the sandbox refuses threads")

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(_REFUSED):
            raise PermissionError(f"the sandbox refuses {event}")
        if event == "open":
            path, _, flags = arguments
            changed: Sequence[Any] = (path,) if flags & _WRITING else ()
        else:
            changed = arguments[: _CHANGED_PATHS.get(event, 0)]
        if not all(map(is_ours, changed)):
            raise PermissionError(f"the sandbox refuses {event} outside its own directory")

    sys.addaudithook(refuse)
    # Before Python 3.12 there is no audit event for threads, and the limit on processes counts threads for all users
    # but
    # root: a verdict must not depend on the user.
    _thread.start_new_thread = refuse_thread  # type: ignore[assignment]


def outcome(program: Sequence[str]) -> str:
    """Executes the sources one after another in one module; returns the line of the report about it."""
    # A named module, because dataclasses and pickle look their module up; not `__main__`, so that guarded code does not
    # run.
    module = types.ModuleType("answer")
    sys.modules["answer"] = module
    try:
        for source in program:
            exec(compile(source, "answer", "exec"), module.__dict__)
    except MemoryError:
        return OUT_OF_MEMORY
    except BaseException as error:  # also SystemExit: an answer that ends itself has not passed
        last_line = traceback.format_exception_only(error)[-1].strip().splitlines()[-1]
        return f"{FAILED} {last_line[:ERROR_CHARACTERS]}"
    return PASSED


def main() -> None:
    order = json.load(sys.stdin)
    report = os.dup(2)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 2)
    # The program may replace whatever it finds in modules.
    write, leave = os.write, os._exit

    def tell(line: str) -> None:
        write(report, f"{line}\n".encode(errors="backslashreplace"))

    folder = os.getcwd()
    try:
        leave_network_and_files(folder)
        set_limits(**order["limits"])
        refuse_outside(folder)
    except Exception as error:
        tell(f"{type(error).__name__}: {error}")
        leave(1)
    tell(READY)
    tell(outcome(order["program"]))
    # Nothing of the program may run after the verdict.
    leave(0)


if __name__ == "__main__":
    main()
