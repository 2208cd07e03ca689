"""Tells whether the server takes new sessions: gRPC's own health service, for supervisors and load balancers.

It stores nothing that a client sends, and no call waits for another client. The ready-made service holds a lock while
it writes, so one watcher that does not read would block every health check, and the server's shutdown too.
"""

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_States = health_pb2.HealthCheckResponse
_WHOLE_SERVER = ""


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    def __init__(self) -> None:
        self._going_away = asyncio.Event()

    def set_draining(self) -> None:
        """Every watcher gets NOT_SERVING, and its call ends."""
        self._going_away.set()

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Any) -> health_pb2.HealthCheckResponse:  # noqa: N802
        if request.service != _WHOLE_SERVER:
            await context.abort(grpc.StatusCode.NOT_FOUND, "only the health of the whole server is told")
        return self._state

    async def List(self, request: health_pb2.HealthListRequest, context: Any) -> health_pb2.HealthListResponse:  # noqa: N802
        return health_pb2.HealthListResponse(statuses={_WHOLE_SERVER: self._state})

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:  # noqa: N802
        is_known = request.service == _WHOLE_SERVER
        await context.write(self._state if is_known else _States(status=_States.SERVICE_UNKNOWN))
        if not is_known or not self._going_away.is_set():
            await self._going_away.wait()
            await context.write(_States(status=_States.NOT_SERVING))

    @property
    def _state(self) -> health_pb2.HealthCheckResponse:
        return _States(status=_States.NOT_SERVING if self._going_away.is_set() else _States.SERVING)
