"""Answers that were running when the server dropped their sessions: to resume one is no new request.

A client may claim to resume anything, so it has to name what the server remembers: the session, the request, and tokens
that the server committed, at least one of them since the last such claim. So nobody resumes an answer for ever.
Text that the client kept unverified may follow. Digests are remembered, and no text. Pure: time is an argument, in
seconds. It may not know why a session was dropped, nor what a request costs.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from common.protocol.messages import Open
from common.protocol.server_session import ServerSession
from server.sessions.entry import SessionEntry, SessionKey

REMEMBERED_S = 600.0
"""How long a dropped answer is remembered: by then allowances are filled up again several times over."""


@dataclass(frozen=True, slots=True)
class _LostAnswer:
    request: bytes  # a digest
    digests: frozenset[bytes]  # of the request and the tokens that its client may have by now
    shortest: int  # of these, in tokens
    longest: int
    until: float


class LostAnswers:
    def __init__(self, most: int, seconds: float):
        """At most so many are remembered, for so long after they were last active."""
        self._most = most
        self._seconds = seconds
        self._lost: dict[SessionKey, _LostAnswer] = {}  # the oldest first
        self.keys = self._lost.keys()  # as they are at any time

    def __len__(self) -> int:
        return len(self._lost)

    def add(self, entry: SessionEntry) -> None:
        """Its session is dropped. Nothing is remembered of an answer that has ended or has no token yet."""
        if entry.meter is None or not entry.meter.tokens:
            return
        session = entry.session
        request, tokens = _request(session), session.tree.tokens
        shortest = max(session.prefill_length + 1, session.acked)
        digests = _digests(request, tokens, shortest)
        self.forget(entry.key)
        self._lost[entry.key] = _LostAnswer(
            request, digests, shortest, len(tokens), entry.last_active_s + self._seconds
        )
        if len(self._lost) > self._most:
            self.forget(next(iter(self._lost)))

    def is_resumed(self, key: SessionKey, opened: Open, now: float) -> bool:
        """Whether this Open continues one of them."""
        lost = self._lost.get(key)
        if lost is None or now >= lost.until or lost.request != _request(opened):
            return False
        claimed = _digests(lost.request, opened.tokens[: lost.longest], lost.shortest)
        return not claimed.isdisjoint(lost.digests)

    def forget(self, key: SessionKey) -> None:
        """Its answer goes on."""
        self._lost.pop(key, None)


def _request(asked: Open | ServerSession) -> bytes:
    return sha256(repr((asked.turn, asked.prompt_length, asked.settings)).encode()).digest()


def _digests(request: bytes, tokens: Sequence[int], shortest: int) -> frozenset[bytes]:
    """Of the request with each beginning of the tokens, from the `shortest` on."""
    digest = sha256(request)
    digest.update(array("I", tokens[:shortest]))
    digests = {digest.digest()}
    for token in tokens[shortest:]:
        digest.update(array("I", (token,)))
        digests.add(digest.digest())
    return frozenset(digests)
