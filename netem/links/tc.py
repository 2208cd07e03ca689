"""The `tc` backend: real TCP over the kernel's sch_netem. Linux and root; what it is made of: namespaces/."""

from common.address import Address
from netem.links.namespaces.link import NamespaceLink
from netem.links.namespaces.tc_wire import TcWire
from netem.links.profile import LinkProfile

_LOOPBACK = Address("127.0.0.1", 0)


class TcLink(NamespaceLink):
    """As TunLink, with what sch_netem can do: no outages, no traces, no seed, nothing recorded."""

    def __init__(
        self,
        profile: LinkProfile,
        target: Address | None,
        listen: Address = _LOOPBACK,
        *,
        congestion: str | None = None,
    ) -> None:
        super().__init__(TcWire(profile, congestion), target, listen, congestion)
