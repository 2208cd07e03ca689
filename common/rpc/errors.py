"""gRPC's exceptions as sentences of our own, translated here once."""

import grpc

from common.protocol.errors import MisuseError, OutriderError, PeerError
from common.protocol.messages import FailureCode


class LinkError(OutriderError):
    """The other side cannot be reached, or the stream broke; neither side is at fault."""


def translated(error: grpc.RpcError, address: str) -> OutriderError:
    """What to raise for a failed call to the server at `address`."""
    status, details = error.code(), error.details() or ""
    if status is grpc.StatusCode.UNAUTHENTICATED:
        return MisuseError(f"the server at {address} refuses the bearer token; give the one that its operator issued")
    if status in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT):
        return PeerError(details, FailureCode.INVALID)
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return PeerError(f"what answers at {address} is not an Outrider server of this protocol", FailureCode.VERSION)
    if status is grpc.StatusCode.OK:
        return LinkError(f"the server at {address} has ended the stream")
    if status is grpc.StatusCode.INTERNAL:
        # gRPC's word for a transport that failed under a call, a write to an ended stream included.
        return LinkError(f"the stream to the server at {address} broke off")
    if status is grpc.StatusCode.UNKNOWN:
        return PeerError(f"the server at {address} failed: {details}", FailureCode.INTERNAL)
    if "handshake" in details.lower() or "certificate" in details.lower():
        return MisuseError(
            f"no secure connection to {address} could be made; check the certificates, and that both ends use TLS"
        )
    return LinkError(f"the server at {address} cannot be reached; check its address and your link")
