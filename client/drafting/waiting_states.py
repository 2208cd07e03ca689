"""Draft state that has come and that the drafter has not seen yet. Pure; knows State frames, and no session."""

from dataclasses import replace

from common.protocol.messages import State

_MOST_BYTES = 512 << 20
"""What comes beyond is dropped; drafters do without, as they do on bad links."""

_FRAME_BYTES = 512  # that a frame needs beside its payload


class WaitingStates:
    def __init__(self) -> None:
        self._waiting: list[State] = []  # that no step has carried yet
        self._bytes = 0  # of these
        self._carried: tuple[State, ...] = ()  # by the latest step

    def add(self, state: State) -> bool:
        """Whether there was room for it."""
        size_bytes = _FRAME_BYTES + len(state.payload)
        if self._bytes + size_bytes > _MOST_BYTES:
            return False
        self._waiting.append(state)
        self._bytes += size_bytes
        return True

    def carry(self) -> tuple[State, ...]:
        """All that waits, for a step that begins."""
        self._carried, self._waiting, self._bytes = tuple(self._waiting), [], 0
        return self._carried

    def undrafted(self, *, stepping: bool) -> tuple[State, ...]:
        """All that no finished step has carried; `stepping` while the latest one is under way."""
        return (*self._carried, *self._waiting) if stepping else tuple(self._waiting)

    def truncate(self, length: int, *, stepping: bool) -> None:
        """The sequence is rewritten behind its first `length` tokens: drops the state of what is behind."""
        kept = [state for state in self.undrafted(stepping=stepping) if state.start < length]
        self._waiting = [replace(state, count=min(state.count, length - state.start)) for state in kept]
        self._bytes = sum(_FRAME_BYTES + len(state.payload) for state in self._waiting)

    def clear(self) -> None:
        self._waiting, self._carried, self._bytes = [], (), 0
