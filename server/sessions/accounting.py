"""Accounting of sessions: counters, events for operators, and what clients use of their quotas.

Pure: time is an argument, in seconds. It decides nothing and holds no part of an answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common.protocol.messages import Commit, FailureCode, Finished, FinishReason, FromServer
from common.protocol.scheduled_tokens import ScheduledTokens, SessionProgress
from server import events
from server.events import EventListener
from server.refusal import AdmissionRefusedError
from server.sessions.counters import Counters
from server.sessions.entry import AnswerMeter, MessageSink, SessionEntry
from server.sessions.quotas import Quotas
from server.sessions.retry_after import RetryAfterEstimator


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """How many answers passes have computed something for, for how many none has yet, and for how many seconds the one
    of these has been due that has been longest."""

    running: int
    waiting: int
    longest_wait_s: float


def count_answers(entries: Iterable[SessionEntry], now: float) -> AnswerCounts:
    """An answer that waits for its client is not due, however long that takes."""
    running, waiting, longest_s = 0, 0, 0.0
    for entry in entries:
        if entry.meter is None:
            continue
        if entry.meter.passes:
            running += 1
            continue
        waiting += 1
        longest_s = max(longest_s, now - max(entry.meter.began, entry.session.due()))
    return AnswerCounts(running, waiting, longest_s)


class Accounting:
    def __init__(self, quotas: Quotas, on_event: EventListener):
        self.counters = Counters()
        self.retry_after = RetryAfterEstimator()
        self._quotas = quotas
        self._on_event = on_event

    def opened(self, entry: SessionEntry, resumed: bool) -> None:
        self.counters.sessions += not resumed
        session = entry.session
        self._on_event(events.SessionOpened(events.short_id(session.id), entry.client, session.tree.frontier, resumed))

    def answer_began(self, entry: SessionEntry, prompt_tokens: int, now: float, *, is_request: bool = True) -> None:
        """An answer begins, or one that was lost goes on, which `is_request` tells apart; `prompt_tokens` new tokens
        came for it. Its client is charged for every token that is computed for it, also for those whose K/V were
        dropped and are computed again."""
        session = entry.session
        before = session.tree.frontier - session.prompt_length
        entry.last_active_s, entry.meter = now, AnswerMeter(now, prompt_tokens, before)
        entry.computed.follow(session.tree.tokens[: session.kept])
        self.counters.prompt_tokens += prompt_tokens
        self.counters.prefix_cache_queries += max(0, entry.to_compute)
        if is_request:
            self._quotas.requested(entry.client, now)
        self._quotas.used(entry.client, max(prompt_tokens, entry.to_compute), now)

    def late_frame(self, entry: SessionEntry, nodes: int, now: float) -> None:
        """A frame of `nodes` nodes came that can change nothing. Raises PeerError where too many of them come."""
        self._quotas.used(entry.client, entry.late_frames.take(nodes, now), now)

    def scheduled(self, entry: SessionEntry, scheduled: ScheduledTokens) -> None:
        """A pass is about to compute these tokens."""
        if entry.meter is not None:
            entry.meter.passes += 1
        self.counters.recomputed_tokens += entry.computed.count_repeats(scheduled)

    def verified(self, entry: SessionEntry, scheduled: ScheduledTokens, progress: SessionProgress, now: float) -> None:
        """A pass computed these tokens, and may have committed some."""
        committed = [token for reply in progress.replies if isinstance(reply, Commit) for token in reply.tokens]
        if scheduled.verify_input is not None:
            self.counters.drafts += bool(scheduled.nodes)
            self.counters.draft_tokens += scheduled.nodes
            self.counters.accepted_tokens += progress.accepted
        if progress.chain_kept:
            entry.computed.add(scheduled, committed)
        self.counters.committed_tokens += len(committed)
        self._quotas.used(entry.client, len(committed), now)
        if committed and entry.meter is not None:
            entry.last_active_s = now
            self._on_event(entry.meter.committed(len(committed), now))

    def delivered(self, entry: SessionEntry, replies: Sequence[FromServer], now: float) -> None:
        """Messages were sent to a session's client. A Finished that is repeated ends no second answer."""
        meter = entry.meter
        for reply in replies:
            if isinstance(reply, Finished) and meter is not None:
                entry.meter = None
                self._finished(entry, meter, reply, now)

    def refused(self, session: str, client: str, error: AdmissionRefusedError) -> None:
        self.counters.refused[error.reason] = self.counters.refused.get(error.reason, 0) + 1
        self._on_event(events.SessionRefused(events.short_id(session), client, error.reason, error.retry_after))

    def failed(self, sink: MessageSink, entry: SessionEntry | None, code: FailureCode) -> None:
        """A stream ends with a fault; `entry` is None where it had no session."""
        self.counters.failed[code] = self.counters.failed.get(code, 0) + 1
        session = "" if entry is None else entry.session.id
        tokens = entry.meter.tokens if entry is not None and entry.meter is not None else 0
        if entry is not None:
            self._cut_off(entry, entry.meter)
        self._on_event(events.StreamFailed(events.short_id(session), sink.client, code, tokens))

    def left(self, entry: SessionEntry, kept_seconds: float = 0.0) -> None:
        running = entry.is_running
        self._on_event(
            events.StreamDisconnected(events.short_id(entry.session.id), entry.client, kept_seconds, running)
        )

    def forgotten(self, entry: SessionEntry) -> None:
        self._cut_off(entry, entry.meter)
        self._on_event(events.LeaseEnded(events.short_id(entry.session.id), entry.client))

    def replaced(self, entry: SessionEntry) -> None:
        """Another answer begins in its session, whether or not the last one was whole."""
        self._cut_off(entry, entry.meter)

    def draining(self, sessions: int) -> None:
        self._on_event(events.DrainingBegan(sessions))

    def _finished(self, entry: SessionEntry, meter: AnswerMeter, finished: Finished, now: float) -> None:
        if entry.session.settings.wants_state_alone:
            return  # it was no answer
        seconds, reason = now - meter.began, finished.reason
        own_seconds = seconds - meter.left_out_s
        self.counters.finished[reason] = self.counters.finished.get(reason, 0) + 1
        if reason is FinishReason.CANCELLED:
            self._cut_off(entry, meter)
        elif meter.before:  # how long it took in all is not known here
            self.retry_after.answer_cut(own_seconds, meter.answer_tokens)
        elif meter.tokens:  # otherwise it says nothing of how long an answer usually is
            self.retry_after.answer_ended(own_seconds, meter.tokens)
        self._on_event(
            events.AnswerFinished(
                events.short_id(entry.session.id),
                entry.client,
                reason,
                meter.prompt_tokens,
                meter.tokens,
                meter.passes,
                seconds,
                meter.first_token_seconds,
            )
        )

    def _cut_off(self, entry: SessionEntry, meter: AnswerMeter | None) -> None:
        """Its answer ends before it is whole, if it has one; one without a token says nothing of how long it would have
        been."""
        if meter is not None and meter.tokens:
            own_seconds = entry.last_active_s - meter.began - meter.left_out_s
            self.retry_after.answer_cut(own_seconds, meter.answer_tokens)
