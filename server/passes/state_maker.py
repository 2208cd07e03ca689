"""Makes draft state: exports it from the target's K/V and encodes it, for several sessions at once. What was made for a
slot of the prefix cache is kept, so that sessions that share a prefix have its state made once.

Blocking torch code, called from the target's worker thread, and from the drafting worker's for server drafters. It may
not know sessions, streams or windows.
"""

import logging
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import torch

from common.codec import compress, pack
from common.draft_models.exporters import StateExporter
from common.models.key_values import KeyValuePool
from common.protocol.draft_state import StateKind, raw_bytes
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, StateRequest
from server.fault_isolation import describe_error
from server.passes.state_export import ExportRequest
from server.passes.state_rows import StateRows

_log = logging.getLogger(__name__)

Exporters = Mapping[tuple[str, int], Sequence[StateExporter]]
"""The exporters of a draft model, by its name and the number of target layers that its client runs. Where two kinds
have positions that are equally new, the first exporter goes first."""


class StateMaker:
    def __init__(self, pool: KeyValuePool, exporters: Exporters):
        self._pool = pool
        self._exporters = exporters
        # By exporter and dtype. Only requests with stamps use them, and these come from one thread.
        self._rows: dict[tuple[StateExporter, str], StateRows] = {}

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

    @property
    def cached_bytes(self) -> int:
        """Of state that is kept for sessions that share prefixes."""
        return sum(rows.nbytes for rows in list(self._rows.values()))

    def make(self, requests: Sequence[ExportRequest]) -> list[bytes | None]:
        """The encoded state for each request, or None where it cannot be computed. One forward serves all requests of a
        kind and draft."""
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
            return self._encode(exporter, requests)
        # Whatever torch raises concerns this state, not the pass that follows and not other sessions.
        except Exception as error:
            _log.error("draft state '%s' cannot be made: %s", exporter.kind, describe_error(error))
            if len(requests) == 1:
                return [None]
            return [self._make_kind(exporter, [request])[0] for request in requests]

    def _encode(self, exporter: StateExporter, requests: Sequence[ExportRequest]) -> list[bytes | None]:
        lacked = np.concatenate([request.slots[self._kept(exporter, request).lacks(request)] for request in requests])
        exported = dict.fromkeys(lacked.tolist())  # each slot once, in order
        index_of = {slot: index for index, slot in enumerate(exported)}
        states = self._export(exporter, list(exported)) if exported else torch.empty(0)
        payloads: list[bytes | None] = []
        for request in requests:
            kept, dtype = self._kept(exporter, request), request.state_request.dtype
            rows, lacks = kept.read(request), kept.lacks(request)
            if lacks.any():
                rows[lacks] = pack(states[[index_of[slot] for slot in request.slots[lacks].tolist()]], dtype)
                kept.keep(request, lacks, rows)
            payloads.append(compress(rows, dtype, prod(exporter.shape)))
        return payloads

    def _kept(self, exporter: StateExporter, request: ExportRequest) -> StateRows:
        key = exporter, request.state_request.dtype
        if key not in self._rows:
            row_bytes = raw_bytes(request.state_request.dtype, (1, *exporter.shape))
            self._rows[key] = StateRows(self._pool.capacity, row_bytes)
        return self._rows[key]

    @torch.inference_mode()
    def _export(self, exporter: StateExporter, slots: Sequence[int]) -> torch.Tensor:
        return exporter.export(self._pool, torch.tensor(slots, device=self._pool.device)).cpu()
