"""The two network namespaces of a link as the process sees them that made them: their making and their settings.

Knows the kernel's calls and no emulation.
"""

import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from netem.links.namespaces import kernel

T = TypeVar("T")


class End:
    """One network namespace, held by a thread that lives in it, so that no other thread ever has to change over."""

    def __init__(self, namespace: int) -> None:
        """namespace: a descriptor, which stays the caller's."""
        self._thread = ThreadPoolExecutor(1, initializer=kernel.enter_network, initargs=(namespace,))

    def call(self, function: Callable[[], T]) -> T:
        """Runs something short there."""
        return self._thread.submit(function).result()

    def socket(self, kind: socket.SocketKind) -> socket.socket:
        """A socket of that end, to be used from any thread."""
        return self.call(lambda: socket.socket(socket.AF_INET, kind))

    def close(self) -> None:
        self._thread.shutdown()


def new_namespace() -> int:
    """Moves this thread into a new network namespace, loopback up; returns a descriptor of it."""
    kernel.unshare(kernel.CLONE_NEWNET)
    kernel.bring_up("lo")
    return os.open(kernel.NETWORK_OF_THIS_THREAD, os.O_RDONLY | os.O_CLOEXEC)
