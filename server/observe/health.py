"""Asks a server whether it takes new sessions, as supervisors and load balancers do; it answers without a token.

It may not know what the server serves.
"""

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from common.address import Address
from common.rpc.channel import CLIENT_OPTIONS, NO_HTTP_PROXY
from common.rpc.credentials import ClientTls, client_credentials
from common.rpc.errors import translated

_SECONDS = 5.0


async def is_serving(address: Address, tls: ClientTls | None = None, name: str | None = None) -> bool:
    """`tls` is None for plain text; `name` is the one that the server's certificate must have, by default the
    address's own.

    Raises LinkError where nobody answers, MisuseError where the server and we do not trust each other.
    """
    options = [*CLIENT_OPTIONS, NO_HTTP_PROXY]
    if name is not None:
        options.append(("grpc.ssl_target_name_override", name))
    if tls is None:
        channel = grpc.aio.insecure_channel(str(address), options=options)
    else:
        channel = grpc.aio.secure_channel(str(address), client_credentials(tls), options=options)
    async with channel:
        try:
            request = health_pb2.HealthCheckRequest()
            reply = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=_SECONDS)
        except grpc.RpcError as error:
            raise translated(error, str(address)) from error
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)
