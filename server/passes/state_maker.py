"""Makes draft state: exports it from the target's K/V and encodes it, for several sessions at once.

Blocking torch code, called from the target's worker thread, and from the drafting worker's for server drafters. It may
not know sessions, streams or windows.
"""

import logging
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from common.codec import encode
from common.draft_models.exporters import StateExporter
from common.models.key_values import KeyValuePool
from common.protocol.draft_state import StateKind
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, StateRequest
from server.fault_isolation import describe_error
from server.passes.state_export import ExportRequest

_log = logging.getLogger(__name__)

Exporters = Mapping[tuple[str, int], Sequence[StateExporter]]
"""The exporters of a draft model, by its name and the number of target layers that its client runs. Where two kinds
have positions that are equally new, the first exporter goes first."""


class StateMaker:
    def __init__(self, pool: KeyValuePool, exporters: Exporters):
        self._pool = pool
        self._exporters = exporters

    def kinds(self, request: StateRequest) -> Sequence[StateKind]:
        """The kinds of state of a request. Raises PeerError for a draft or a number of layers that is not served."""
        exporters = self._exporters.get((request.draft, request.layers))
        if exporters is not None:
            return [StateKind(exporter.kind, exporter.shape) for exporter in exporters]
        depths = [str(layers) for draft, layers in self._exporters if draft == request.draft]
        if not depths:
            raise PeerError(
                f"this server sends no draft state for the draft model '{request.draft}'", FailureCode.INVALID
            )
        raise PeerError(
            f"the draft model '{request.draft}' cannot run the target's last {request.layers} layers, "
            f"only as many of them as one of: {', '.join(depths)}",
            FailureCode.INVALID,
        )

    def make(self, requests: Sequence[ExportRequest]) -> list[bytes | None]:
        """The encoded state for each ask, or None where it cannot be computed. One forward serves all asks of a kind
        and draft."""
        groups: dict[StateExporter, list[int]] = {}
        for index, request in enumerate(requests):
            exporters = self._exporters[request.state_request.draft, request.state_request.layers]
            exporter = next(each for each in exporters if each.kind == request.kind)
            groups.setdefault(exporter, []).append(index)
        payloads: list[bytes | None] = [None] * len(requests)
        for exporter, members in groups.items():
            for index, payload in zip(members, self._make_kind(exporter, [requests[i] for i in members]), strict=True):
                payloads[index] = payload
        return payloads

    def _make_kind(self, exporter: StateExporter, requests: Sequence[ExportRequest]) -> list[bytes | None]:
        try:
            states = self._export(exporter, requests)
            return [encode(state, request.state_request.dtype) for state, request in zip(states, requests, strict=True)]
        # Whatever torch raises concerns this state, not the pass that follows and not other sessions.
        except Exception as error:
            _log.error("draft state '%s' cannot be made: %s", exporter.kind, describe_error(error))
            if len(requests) == 1:
                return [None]
            return [self._make_kind(exporter, [request])[0] for request in requests]

    @torch.inference_mode()
    def _export(self, exporter: StateExporter, requests: Sequence[ExportRequest]) -> Sequence[torch.Tensor]:
        slots = torch.from_numpy(np.concatenate([request.slots for request in requests])).to(self._pool.device)
        return torch.split(exporter.export(self._pool, slots).cpu(), [len(request.slots) for request in requests])
