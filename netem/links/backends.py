"""The table of backends that emulate a link, and the choice of one that works on this machine.

It knows each backend only by its constructor.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from common.address import Address
from common.protocol.errors import MisuseError
from netem.links.errors import LinkFailureError
from netem.links.profile import Direction, LinkProfile
from netem.links.proxy import Proxy
from netem.links.tc import TcLink
from netem.links.trace import Trace
from netem.links.tun import TunLink

AUTO = "auto"
PROXY = "proxy"
TUN = "tun"
TC = "tc"
_LOOPBACK = Address("127.0.0.1", 0)


class Link(Protocol):
    """The interface of every backend inside `async with`. bytes_up, bytes_down: payload delivered so far."""

    bytes_up: int
    bytes_down: int

    @property
    def address(self) -> Address: ...

    async def traces(self) -> tuple[Trace, Trace] | None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...


@dataclass(frozen=True)
class LinkRequest:
    """The link that a caller wants.

    target: the server behind the link; only some backends accept None. congestion: the name of a TCP congestion
    control; None keeps the system's. record: keep traces of what comes out.
    """

    profile: LinkProfile
    target: Address | None
    listen: Address = _LOOPBACK
    congestion: str | None = None
    record: bool = False


def _proxy(request: LinkRequest) -> Link:
    if request.congestion is not None:
        raise MisuseError("the proxy backend ends TCP at both sides: choose a congestion control with --backend tun")
    if request.target is None:
        raise MisuseError(
            "the proxy, all that works without root, needs a server to stand in front of: give --to HOST:PORT"
        )
    return Proxy(request.profile, request.target, request.listen, record=request.record)


def _tun(request: LinkRequest) -> Link:
    return TunLink(
        request.profile, request.target, request.listen, congestion=request.congestion, record=request.record
    )


def _tc(request: LinkRequest) -> Link:
    if request.record:
        raise MisuseError("the tc backend records nothing: use --backend tun or proxy")
    return TcLink(request.profile, request.target, request.listen, congestion=request.congestion)


BACKENDS: Mapping[str, Callable[[LinkRequest], Link]] = {PROXY: _proxy, TUN: _tun, TC: _tc}


def find_backend(name: str) -> Callable[[LinkRequest], Link]:
    """Raises MisuseError where there is none of that name."""
    if name not in BACKENDS:
        raise MisuseError(f"there is no backend '{name}': choose one of {', '.join(BACKENDS)}")
    return BACKENDS[name]


async def working_backends() -> list[str]:
    """The backends that work on this machine, found by opening each."""
    return [name for name in BACKENDS if name == PROXY or await why_not(name) is None]


async def why_not(name: str) -> str | None:
    """Why a backend does not work on this machine, found by opening it; None where it works."""
    nothing = LinkProfile("trial", "nothing but the emulation", Direction(), Direction())
    try:
        async with find_backend(name)(LinkRequest(nothing, Address("127.0.0.1", 1))):
            return None
    except LinkFailureError as failure:
        return str(failure)


async def choose_backend(name: str) -> str:
    """The backend of that name, or for `auto` tun where it works, else proxy.

    Raises LinkFailureError, with those that work, where the one asked for does not.
    """
    if name == AUTO:
        return PROXY if await why_not(TUN) else TUN
    find_backend(name)
    if name != PROXY and (reason := await why_not(name)):
        raise LinkFailureError(f"{reason}; what works here: --backend {' or '.join(await working_backends())}")
    return name
