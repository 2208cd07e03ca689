"""The Linux calls that Python 3.11 lacks: namespaces, the parent's death, TUN devices and their addresses.

One function for each call. Every refusal is an OSError, and so is a system other than Linux. Knows no link.
"""

import contextlib
import ctypes
import errno
import os
import socket
import struct
import sys

# Other systems must be able to import this, so that they can report that it does not work there.
with contextlib.suppress(ImportError):
    import fcntl

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
CLONE_NEWPID = 0x20000000

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_MS_REC_PRIVATE = 0x4000 | 0x40000

_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_SIOCSIFADDR = 0x8916
_SIOCSIFNETMASK = 0x891C
_SIOCSIFMTU = 0x8922
_SIOCSIFTXQLEN = 0x8943
_IFF_UP = 0x1
_IFNAMSIZ = 16

NETWORK_OF_THIS_THREAD = "/proc/thread-self/ns/net"


def unshare(what: int) -> None:
    """Moves this thread (for CLONE_NEWPID: its future children) into new namespaces."""
    _check(_libc().unshare(what))


def enter_network(namespace: int) -> None:
    """Moves this thread into the network namespace behind a file descriptor."""
    _check(_libc().setns(namespace, CLONE_NEWNET))


def die_with_parent(number: int) -> None:
    """Makes the kernel send this signal to this process when the thread that started it is gone."""
    _check(_libc().prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0))


def adopt_orphans() -> None:
    """Makes this process the parent of every descendant whose own parent ends."""
    _check(_libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def mount_own_proc() -> None:
    """Shows the processes of this pid namespace under /proc, in this mount namespace alone."""
    _check(_libc().mount(b"none", b"/", None, _MS_REC_PRIVATE, None))
    _check(_libc().mount(b"proc", b"/proc", b"proc", _MS_NOSUID_NODEV_NOEXEC, None))


def open_tun(name: str) -> int:
    """A new TUN device in this thread's network namespace; closing the descriptor removes it."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # Without a header for offloads the kernel hands over whole packets of at most an MTU, with checksums.
        fcntl.ioctl(device, _TUNSETIFF, struct.pack(f"{_IFNAMSIZ}sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError:
        os.close(device)
        raise
    return device


def configure(name: str, host: str, netmask: str, mtu: int, queue_packets: int) -> None:
    """Gives an interface of this thread's network namespace an IPv4 address, an MTU and a queue, and brings it up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _set(control, _SIOCSIFADDR, name, _ipv4(host))
        _set(control, _SIOCSIFNETMASK, name, _ipv4(netmask))
        _set(control, _SIOCSIFMTU, name, struct.pack("i20x", mtu))
        _set(control, _SIOCSIFTXQLEN, name, struct.pack("i20x", queue_packets))
    bring_up(name)


def bring_up(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack(f"{_IFNAMSIZ}s24x", name.encode()))
        (flags,) = struct.unpack_from("H", answer, _IFNAMSIZ)
        _set(control, _SIOCSIFFLAGS, name, struct.pack("H22x", flags | _IFF_UP))


def _set(control: socket.socket, request: int, name: str, argument: bytes) -> None:
    fcntl.ioctl(control, request, struct.pack(f"{_IFNAMSIZ}s24s", name.encode(), argument))


def _ipv4(host: str) -> bytes:
    return struct.pack("H2x4s16x", socket.AF_INET, socket.inet_aton(host))


def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "this system is not Linux")
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
