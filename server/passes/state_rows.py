"""Draft state that was made: packed rows by the slot of their K/V, valid as long as the slot's stamp is the same.

A slot of the prefix cache belongs to one owner's sequences, and with it its row. numpy only; it may not know exporters,
sessions or the cache.
"""

import numpy as np

from server.passes.sequence import NO_STAMP
from server.passes.state_export import ExportRequest

MOST_BYTES = 256 << 20
"""Of the rows of one kind and dtype. State of slots beyond them is made anew for each session."""


class StateRows:
    """Of one kind and dtype. Used by one thread."""

    def __init__(self, capacity: int, row_bytes: int, most_bytes: int = MOST_BYTES):
        """`capacity`: slots of the pool, of which the first that fit into `most_bytes` have rows."""
        self._slots = min(capacity, most_bytes // row_bytes)
        # The system gives memory for rows as they are written.
        self._rows = np.zeros((self._slots, row_bytes), dtype=np.uint8)
        self._stamps = np.full(self._slots, NO_STAMP, dtype=np.int64)
        self._written = 0

    @property
    def nbytes(self) -> int:
        """Of the rows that were ever written. That of a slot that was evicted is overwritten by the next."""
        return self._written * self._rows.shape[1]

    def lacks(self, request: ExportRequest) -> np.ndarray:
        """`[positions]`: where state has to be made."""
        if request.stamps is None:
            return np.ones(len(request.slots), dtype=np.bool_)
        lacks = np.ones(len(request.slots), dtype=np.bool_)
        held = self._held(request)
        stamps = request.stamps[held]
        lacks[held] = (stamps == NO_STAMP) | (self._stamps[request.slots[held]] != stamps)
        return lacks

    def read(self, request: ExportRequest) -> np.ndarray:
        """`[positions, row bytes]`, a copy, with anything where state is lacked."""
        rows = np.zeros((len(request.slots), self._rows.shape[1]), dtype=np.uint8)
        held = self._held(request)
        rows[held] = self._rows[request.slots[held]]
        return rows

    def keep(self, request: ExportRequest, made: np.ndarray, rows: np.ndarray) -> None:
        """Keeps those of `rows [positions, row bytes]` that were `made` and whose slots have a stamp."""
        if request.stamps is None:
            return
        lasting = made & (request.stamps != NO_STAMP) & self._held(request)
        slots = request.slots[lasting]
        self._written += int((self._stamps[slots] == NO_STAMP).sum())
        self._rows[slots], self._stamps[slots] = rows[lasting], request.stamps[lasting]

    def _held(self, request: ExportRequest) -> np.ndarray:
        """`[positions]`: whose slots have a row."""
        held: np.ndarray = request.slots < self._slots
        return held
