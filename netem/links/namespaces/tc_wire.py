"""A wire made of the kernel's veth pair with sch_netem on both ends. Runs `ip` and `tc`; it emulates nothing itself."""

import asyncio
import contextlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

from netem.links.errors import LinkFailureError
from netem.links.namespaces import kernel
from netem.links.namespaces.addresses import DEVICE, FAR, MTU_BYTES, NEAR, NETMASK
from netem.links.namespaces.congestion import use_congestion
from netem.links.namespaces.messages import EmulatorReport
from netem.links.namespaces.namespace_thread import NamespaceThread, new_namespace
from netem.links.namespaces.netem import counters_of, netem_arguments, require_expressible
from netem.links.namespaces.wire import NamespacePair
from netem.links.profile import LinkProfile

_DEVICE_QUEUE_PACKETS = 1000


class TcWire:
    """Raises MisuseError for a profile that sch_netem cannot emulate."""

    def __init__(self, profile: LinkProfile, congestion: str | None) -> None:
        require_expressible(profile)
        self._profile = profile
        self._congestion = congestion

    async def open(self) -> NamespacePair:
        return await asyncio.to_thread(self._open)

    async def close(self) -> None:
        """Ends the threads; the kernel removes the veth pair with the namespaces."""
        self._near.close()
        self._far.close()

    async def report(self) -> EmulatorReport:
        return await asyncio.to_thread(self._report)

    def _open(self) -> NamespacePair:
        with contextlib.ExitStack() as undo:
            try:
                # Separate threads, because each stays in the namespace that it makes.
                with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
                    near, far = first.submit(new_namespace).result(), second.submit(new_namespace).result()
                self._near, self._far = NamespaceThread(near), NamespaceThread(far)
                for namespace, end in ((near, self._near), (far, self._far)):
                    undo.callback(os.close, namespace)
                    undo.callback(end.close)
                self._join(far)
            except (OSError, subprocess.CalledProcessError) as refusal:
                raise LinkFailureError("the tc backend needs root, ip, tc and a kernel with sch_netem") from refusal
            undo.pop_all()
        return NamespacePair(near, far)

    def _join(self, far: int) -> None:
        self._near.call(lambda: _run("ip", "link", "add", DEVICE, "type", "veth", "peer", DEVICE, "netns", _path(far)))
        self._near.call(lambda: self._set_up(NEAR, netem_arguments(self._profile.up)))
        self._far.call(lambda: self._set_up(FAR, netem_arguments(self._profile.down)))

    def _set_up(self, host: str, discipline: list[str]) -> None:
        kernel.configure(DEVICE, host, NETMASK, MTU_BYTES, _DEVICE_QUEUE_PACKETS)
        # Otherwise sch_netem would delay and lose segments of 64 KB.
        _run("ip", "link", "set", DEVICE, "gso_max_segs", "1")
        _run("tc", "qdisc", "add", "dev", DEVICE, "root", *discipline)
        if self._congestion is not None:
            use_congestion(self._congestion)

    def _report(self) -> EmulatorReport:
        up, down = (
            counters_of(end.call(lambda: _run("tc", "-s", "-j", "qdisc", "show", "dev", DEVICE)))
            for end in (self._near, self._far)
        )
        return EmulatorReport(up, down)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _path(namespace: int) -> str:
    return f"/proc/{os.getpid()}/fd/{namespace}"
