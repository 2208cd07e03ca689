"""Translates gRPC's exceptions into our errors, each with one plain sentence."""

import grpc

from common.protocol.errors import MisuseError, OutriderError, PeerError
from common.protocol.messages import FailureCode
from common.protocol.plain import plain

_LONGEST_DETAILS = 1000  # characters

_DISTRUSTED = {
    "certificate has expired": "has a certificate that has expired; its operator must renew it, or this clock is wrong",
    "certificate is not yet valid": "has a certificate that is not valid yet; check this machine's clock",
    "hostname verification": "has a certificate for another name; dial it by a name that its certificate has",
    "unable to get local issuer": "has a certificate of an authority that is not trusted here; name it with --tls-ca",
    "self signed": "has a certificate of an authority that is not trusted here; name it with --tls-ca",
    "unsupported certificate purpose": "has a certificate that is none of a server; its operator must make another",
}
"""Why a server's certificate was refused, by the text of gRPC's error."""


class LinkError(OutriderError):
    """The peer cannot be reached, or the stream broke; neither side is at fault."""


class HungUpError(LinkError):
    """A peer accepted the connection and closed it at once, or speaks another protocol: for example a port that
    expects TLS or a client certificate, or a tunnel whose far end is gone."""


class HandshakeError(HungUpError, MisuseError):
    """No secure connection can be made to what answers. The options for TLS are wrong where none was ever made;
    otherwise a network is in between that answers for the server, as one does that wants a login first."""


class UnauthorizedError(MisuseError):
    """The server wants a bearer token: there is none, or not one that it accepts (any longer)."""


def translated(error: grpc.RpcError, address: str, *, bears_token: bool = False) -> OutriderError:
    """The error to raise for a failed call to the server at `address`; `bears_token`: the call had a bearer token."""
    status, details = error.code(), plain(error.details() or "", _LONGEST_DETAILS)
    if status is grpc.StatusCode.UNAUTHENTICATED:
        fault = "does not accept the bearer token that was given" if bears_token else "asks for a bearer token"
        return UnauthorizedError(f"the server at {address} {fault}; give one that its operator issued")
    if status in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT):
        return PeerError(details, FailureCode.INVALID)
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return PeerError(f"what answers at {address} is not an Outrider server of this protocol", FailureCode.VERSION)
    if status is grpc.StatusCode.OK:
        return LinkError(f"the server at {address} has ended the stream")
    if status is grpc.StatusCode.INTERNAL:
        # gRPC's status for a transport that failed during a call, including a write to an ended stream.
        return LinkError(f"the stream to the server at {address} broke off")
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return LinkError(f"the server at {address} has no room for this now; try again later or send less")
    if status is grpc.StatusCode.UNKNOWN:
        return PeerError(f"the server at {address} failed: {details}", FailureCode.INTERNAL)
    return _out_of_reach(status, details.lower(), address)


def _out_of_reach(status: grpc.StatusCode, details: str, address: str) -> OutriderError:
    # For connection failures the cause is only in the text of gRPC's details.
    if "wrong_version_number" in details:
        return HandshakeError(f"the server at {address} speaks no TLS; leave the TLS options out")
    for said, sentence in _DISTRUSTED.items():
        if said in details:
            return HandshakeError(f"the server at {address} {sentence}")
    # Also during a TLS handshake.
    if "failed to connect" in details and "socket closed" in details:
        return HungUpError(
            f"the server at {address} hung up at once; it may speak TLS, ask for a certificate of your own, or have "
            "too many connections for now: `outrider doctor` says which"
        )
    if "handshake" in details or "certificate" in details:
        return HandshakeError(
            f"no secure connection to {address} could be made; check the certificates, and that both ends use TLS"
        )
    if "expected settings frame" in details:
        return HungUpError(f"what answers at {address} is not an Outrider server; check the address and the port")
    if "dns resolution failed" in details or "errors resolving" in details:
        return LinkError(f"the name of the server at {address} is unknown here; check its spelling and your link")
    if "failed to connect" in details or status is not grpc.StatusCode.UNAVAILABLE:
        return LinkError(f"the server at {address} cannot be reached; check its address and your link")
    return LinkError(f"the connection to the server at {address} was lost; ask again when it is back")
