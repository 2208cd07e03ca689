"""The `tun` backend: real TCP over a user-space packet emulator. Needs Linux and root; its parts are in namespaces/."""

from common.address import Address
from netem.links.namespaces.link import NamespaceLink
from netem.links.namespaces.tun_wire import TunWire
from netem.links.profile import LinkProfile

_LOOPBACK = Address("127.0.0.1", 0)


class TunLink(NamespaceLink):
    """`async with TunLink(profile, target) as link`; the interface is that of NamespaceLink."""

    def __init__(
        self,
        profile: LinkProfile,
        target: Address | None,
        listen: Address = _LOOPBACK,
        *,
        congestion: str | None = None,
        record: bool = False,
    ) -> None:
        """congestion: the TCP congestion control of both ends; None keeps the system's."""
        super().__init__(TunWire(profile, congestion, record), target, listen, congestion)
