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
        self._tun_wire = TunWire(profile, congestion, record)
        super().__init__(self._tun_wire, target, listen, congestion)

    def cut(self) -> None:
        """Loses every packet that is sent, both ways, until `restore`. What is on its way still arrives."""
        self._tun_wire.turn(cut=True)

    def restore(self) -> None:
        """Carries packets again, once TCP sends them anew."""
        self._tun_wire.turn(cut=False)
