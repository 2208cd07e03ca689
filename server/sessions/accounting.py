"""The books that are kept of sessions: counters, what operators are told, what clients used of their quotas.

Pure: time is an argument, in seconds. It decides nothing and holds nothing that an answer is made of.
"""

from collections.abc import Sequence

from common.protocol.messages import FailureCode, Finished, FromServer
from common.protocol.work import Progress
from server import events
from server.events import Tell
from server.passes.batch import Part
from server.sessions.answer_meter import AnswerMeter
from server.sessions.counters import Counters
from server.sessions.entry import Listener, Member
from server.sessions.quotas import Quotas
from server.sessions.refusal import TurnedAwayError
from server.sessions.retry_after import Turnover


class Books:
    def __init__(self, quotas: Quotas, tell: Tell):
        self.counters = Counters()
        self.turnover = Turnover()
        self._quotas = quotas
        self._tell = tell

    def opened(self, member: Member, resumed: bool) -> None:
        self.counters.sessions += not resumed
        session = member.session
        self._tell(events.Opened(events.shown(session.id), member.client, session.tree.frontier, resumed))

    def asked(self, member: Member, prompt_tokens: int, now: float) -> None:
        """An answer begins; so many tokens came with its question that were not here before. Its client pays for all
        that is computed for it, for what was computed once and has made room for others meanwhile too."""
        member.active, member.meter = now, AnswerMeter(now, prompt_tokens)
        self.counters.prompt_tokens += prompt_tokens
        self._quotas.requested(member.client, now)
        self._quotas.used(member.client, max(prompt_tokens, member.to_compute), now)

    def late(self, member: Member, nodes: int, now: float) -> None:
        """A frame came, with so many nodes, that can change nothing. Raises PeerError where they do not stop."""
        self._quotas.used(member.client, member.late.take(nodes, now), now)

    def judged(self, part: Part[Member], progress: Progress) -> None:
        if part.work.reaches_root:
            self.counters.drafts += bool(part.work.nodes)
            self.counters.draft_tokens += len(part.work.nodes)
            self.counters.accepted_tokens += progress.accepted

    def committed(self, member: Member, tokens: int, now: float) -> None:
        self.counters.committed_tokens += tokens
        self._quotas.used(member.client, tokens, now)
        if tokens and member.meter is not None:
            member.active = now
            self._tell(member.meter.committed(tokens, now))

    def delivered(self, member: Member, replies: Sequence[FromServer], now: float) -> None:
        """An end that is told again is no other end."""
        meter = member.meter
        for reply in replies:
            if isinstance(reply, Finished) and meter is not None:
                member.meter = None
                self._finished(member, meter, reply, now)

    def turned_away(self, session: str, client: str, error: TurnedAwayError) -> None:
        self.counters.failures += 1
        self.counters.refused[error.reason] = self.counters.refused.get(error.reason, 0) + 1
        self._tell(events.Refused(events.shown(session), client, error.reason, error.retry_after))

    def failed(self, listener: Listener, member: Member | None, code: FailureCode) -> None:
        """A stream ends with a fault; `member` is None where it had no session."""
        self.counters.failures += 1
        self.counters.failed[code] = self.counters.failed.get(code, 0) + 1
        session = "" if member is None else member.session.id
        tokens = member.meter.tokens if member is not None and member.meter is not None else 0
        self._tell(events.Failed(events.shown(session), listener.client, code, tokens))

    def left(self, member: Member, kept_seconds: float = 0.0) -> None:
        running = member.is_running
        self._tell(events.Left(events.shown(member.session.id), member.client, kept_seconds, running))

    def forgotten(self, member: Member) -> None:
        self._tell(events.Forgotten(events.shown(member.session.id), member.client))

    def draining(self, sessions: int) -> None:
        self._tell(events.Draining(sessions))

    def _finished(self, member: Member, meter: AnswerMeter, finished: Finished, now: float) -> None:
        seconds, reason = now - meter.began, finished.reason
        self.counters.finished[reason] = self.counters.finished.get(reason, 0) + 1
        self.turnover.ended(seconds, meter.tokens)
        self._tell(
            events.Finished(
                events.shown(member.session.id),
                member.client,
                reason,
                meter.prompt_tokens,
                meter.tokens,
                meter.passes,
                seconds,
                meter.first_token_seconds,
            )
        )
