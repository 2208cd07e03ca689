"""The `tc` backend: real TCP over the kernel's sch_netem. Needs Linux and root; its parts are in namespaces/."""

from common.address import Address
from netem.links.namespaces.link import NamespaceLink
from netem.links.namespaces.tc_wire import TcWire
from netem.links.profile import LinkProfile

_LOOPBACK = Address("127.0.0.1", 0)


class TcLink(NamespaceLink):
    """As TunLink, within the limits of sch_netem: no outages, no traces, no seed, no recording."""

    def __init__(
        self,
        profile: LinkProfile,
        target: Address | None,
        listen: Address = _LOOPBACK,
        *,
        congestion: str | None = None,
    ) -> None:
        super().__init__(TcWire(profile, congestion), target, listen, congestion)
