"""Makes network namespaces, and runs calls inside one. Knows the kernel's calls and no emulation."""

import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from netem.links.namespaces import kernel

T = TypeVar("T")


class NamespaceThread:
    """A thread that lives in one network namespace, so that no other thread has to enter it."""

    def __init__(self, namespace: int) -> None:
        """namespace: a file descriptor, which the caller closes."""
        self._thread = ThreadPoolExecutor(1, initializer=kernel.enter_network, initargs=(namespace,))

    def call(self, function: Callable[[], T]) -> T:
        """Runs a short function in the namespace and returns its result."""
        return self._thread.submit(function).result()

    def socket(self, kind: socket.SocketKind) -> socket.socket:
        """A socket in that namespace, to be used from any thread."""
        return self.call(lambda: socket.socket(socket.AF_INET, kind))

    def close(self) -> None:
        self._thread.shutdown()


def new_namespace() -> int:
    """Moves this thread into a new network namespace and brings its loopback up; returns a file descriptor of it."""
    kernel.unshare(kernel.CLONE_NEWNET)
    kernel.bring_up("lo")
    return os.open(kernel.NETWORK_OF_THIS_THREAD, os.O_RDONLY | os.O_CLOEXEC)
