"""The server's half of one session: it receives frames, plans the tokens of the next pass and applies its result.

Knows no K/V and no slots: `processed` is the number of leading positions that have been through the target, and the
server keeps K/V of exactly that many; it raises it for K/V that another session computed. Time is an argument, in s.
"""

import math
from collections.abc import Callable, Sequence

from common.protocol.acceptance import AcceptanceEstimator
from common.protocol.checks import check_extend, check_nodes, check_open
from common.protocol.ends import cut
from common.protocol.errors import MisuseError, PeerError
from common.protocol.idle import IDLE_POLICIES, Waiting
from common.protocol.logprobs import TokenLogprobs
from common.protocol.messages import (
    Ack,
    Cancel,
    Commit,
    Extend,
    Finished,
    FinishReason,
    FromClient,
    Grow,
    Open,
    Opened,
    Ping,
    Pong,
    Settings,
    State,
    StateAck,
    StateRequest,
)
from common.protocol.pass_timings import PassTimings
from common.protocol.prefix import common_prefix
from common.protocol.response_time import ResponseTime, max_run_ahead
from common.protocol.rules import RULES
from common.protocol.rules.verify_input import make_verify_input
from common.protocol.scheduled_tokens import Replies, ScheduledTokens, SessionProgress
from common.protocol.selection import LevelGain, likeliest
from common.protocol.state_feed import Span, StateFeed, feed_for
from common.protocol.terms import Terms
from common.protocol.transitions import ServerState, server_after
from common.protocol.tree import TokenTree
from common.protocol.unacknowledged import commits_to_repeat, still_unacknowledged
from common.protocol.views import Proposal, TreeView


class ServerSession:
    def __init__(self, opened: Open, terms: Terms, now: float, pass_timings: PassTimings | None = None):
        """`pass_timings` are those of all sessions. Raises PeerError, with a code, for one that cannot be served."""
        self._terms = terms
        check_open(opened, self._terms)
        self.id = opened.session
        self.processed = 0
        self.epoch = 0  # the result of a pass or a level that began in an earlier epoch may be void
        self._response_time = ResponseTime()
        self.acceptance = AcceptanceEstimator()
        self._pass_timings = pass_timings or PassTimings()
        self._server_can_draft = terms.server_drafts
        self.lacks_drafter = False  # others have all that the server may hold
        self._level_gain = LevelGain()
        self.state = ServerState.GENERATING
        self.feed = self._new_feed(opened.state)
        self.tree = TokenTree(opened.tokens, self._terms.context)
        self._begin_turn(opened.turn, opened.prompt_length, opened.settings, 0, now)

    # Frames that arrive.

    def opening_replies(self) -> Replies:
        """The replies to the Open that made or rebuilt it: Opened, and Finished if its tokens hold a whole answer."""
        return (Opened(self.id), *self._end_if_over())

    def resumes(self, opened: Open) -> bool:
        """Whether a newer stream continues this answer."""
        request = (opened.turn, opened.prompt_length, opened.settings)
        is_same = request == (self.turn, self.prompt_length, self.settings)
        return is_same and self.tree.holds(0, opened.tokens)

    def reopen(self, opened: Open, now: float) -> Replies:
        """A newer stream: resumes the session, or rebuilds it where sequence or request differ; returns the replies.
        Raises PeerError, and changes nothing, for an Open that cannot be served."""
        check_open(opened, self._terms)
        if opened.state != self._state_request:
            self.feed = self._new_feed(opened.state)
            self._server_can_draft = self._terms.server_drafts
        if self.feed is not None:
            self.feed.restart()
        if self.resumes(opened):
            self.tree.rewrite(self.tree.frontier, ())
            self.acked = len(opened.tokens)
            self.answered_at = self.exhausted_at = 0
            self._response_time.restart()
            return (Opened(self.id), *self._replay(), *self._end_if_fed())
        same = common_prefix(self.tree.tokens, opened.tokens)
        if self.feed is not None:
            self.feed.rewrite(same)
        self.state = server_after(self.state, Open)
        self.epoch += 1
        self.tree = TokenTree(opened.tokens, self._terms.context)
        self._begin_turn(opened.turn, opened.prompt_length, opened.settings, same, now)
        return self.opening_replies()

    def receive(self, message: FromClient, now: float) -> Replies:
        """Raises PeerError where the client breaks the protocol."""
        if isinstance(message, Open):
            raise PeerError("Open is only allowed as the first frame of a stream")
        return _HANDLERS[type(message)](self, message, now)

    def _receive_grow(self, grow: Grow, now: float) -> Replies:
        if self._is_stale(grow.turn) or self.state is ServerState.FINISHED:
            self.tree.note(grow.nodes)
            return ()
        check_nodes(grow.nodes, self._terms)
        self.tree.grow(grow.frontier, grow.nodes)
        most = self._terms.max_nodes + (self._terms.max_server_drafted_nodes if self.idle_policy.server_drafts else 0)
        if len(self.tree) > most:
            raise PeerError(f"the tree has {len(self.tree)} nodes, more than the {most} allowed")
        self._acknowledge(grow.frontier, now)
        self.answered_at = max(self.answered_at, grow.frontier)
        if self.tree.names > self._terms.max_names(self.tree.frontier - self.acked):
            raise PeerError(f"too many aliases: {self.tree.names} ids for {len(self.tree)} nodes")
        if not grow.nodes:
            self.exhausted_at = max(self.exhausted_at, grow.frontier)
        return ()

    def _receive_ack(self, ack: Ack, now: float) -> Replies:
        if not self._is_stale(ack.turn):
            if not 0 < ack.frontier <= self.tree.frontier:
                raise PeerError(f"an Ack names frontier {ack.frontier}, but {self.tree.frontier} are committed")
            self._acknowledge(ack.frontier, now)
        return ()

    def _receive_state_ack(self, ack: StateAck, now: float) -> Replies:
        if self.feed is None:
            raise PeerError("a StateAck came, but no draft state was asked for")
        self.feed.acknowledge(ack.frames, now)
        return self._end_if_fed()

    def _receive_cancel(self, cancel: Cancel, now: float) -> Replies:
        if self._is_stale(cancel.turn) or self.state is ServerState.FINISHED:
            return ()
        return (self._finish(FinishReason.CANCELLED),)

    def _receive_extend(self, extend: Extend, now: float) -> Replies:
        if extend.turn <= self.turn:
            return ()  # a repeat
        tokens = self.prompt_of(extend)
        self.state = server_after(self.state, Extend)
        self.tree.rewrite(extend.keep, extend.tokens)
        if self.feed is not None:
            self.feed.rewrite(extend.keep)
        self._begin_turn(extend.turn, len(tokens), extend.settings, extend.keep, now)
        return self._end_if_fed()

    def prompt_of(self, extend: Extend) -> tuple[int, ...]:
        """The sequence that an Extend asks to be answered. Raises PeerError where that cannot begin now."""
        prompt = check_extend(extend, self.turn, self.tree.tokens, self._terms)
        server_after(self.state, Extend)
        return prompt

    def park(self) -> None:
        """The K/V of this finished session are given up; a next turn computes them again. Raises MisuseError in the
        middle of an answer."""
        if self.state is not ServerState.FINISHED:
            raise MisuseError("only a finished session can be parked")
        self.processed = 0

    # Passes.

    def due(self, can_join_pass: bool = False) -> float:
        """When it wants a pass, or to join one that others begin now; infinite while it waits for its client."""
        if self.state is ServerState.FINISHED:
            return math.inf
        if self.processed < self.prefill_length - 1:
            return self._root_committed_at
        if self.settings.wants_state_alone:
            return self._root_committed_at if self.processed < self.tree.frontier else math.inf
        if self.stalled:
            return math.inf
        waiting = Waiting(
            nodes=len(self.tree),
            answered=self.answered_at == self.tree.frontier,
            exhausted=self.exhausted_at == self.tree.frontier,
            since_s=self._root_committed_at,
            response_s=self._response_time.allowance(),
            level_gain=self._level_gain.of(self.tree, self.room) if self.may_server_draft else 0.0,
            tokens_per_s=self.acceptance.tokens_per_s,
            miss_rate=self.acceptance.miss_rate,
            level_s=self._pass_timings.level_s,
            levels_per_pass=self._pass_timings.levels_per_pass,
            pass_s=self._pass_timings.pass_s,
            can_join_pass=can_join_pass,
        )
        return self.idle_policy.due(waiting)

    @property
    def room(self) -> int:
        """How many tokens the answer may still gain."""
        return self.limit - self.tree.frontier

    @property
    def stalled(self) -> bool:
        """Whether the answer has run so far ahead that its client must acknowledge tokens first."""
        ahead = self.tree.frontier - self.acked
        return ahead >= max_run_ahead(self._terms.run_ahead, self.acceptance.tokens_per_s, self._response_time)

    @property
    def waits_for_its_client(self) -> bool:
        """Whether nothing happens before a frame of the client: nodes, an acknowledgement or its next turn."""
        return self.due() == math.inf and not self.may_server_draft

    def plan(self, budget: int) -> ScheduledTokens:
        """The session's tokens of the next pass, at most `budget`: the unprocessed chain, then the likeliest nodes."""
        tokens = self.tree.tokens
        chain = tuple(tokens[self.processed : self.processed + budget])
        if self.processed + len(chain) < len(tokens) or self.settings.wants_state_alone:
            return ScheduledTokens(self.processed, chain, None, self.epoch)
        room = self.room
        nodes = likeliest(self.tree, budget - len(chain), room)
        verify_input = make_verify_input(self.tree, nodes, self.settings, room, self.prompt_length, self._constraint)
        return ScheduledTokens(self.processed, chain, verify_input, self.epoch)

    def complete(
        self, scheduled: ScheduledTokens, tokens: Sequence[int], now: float, logprobs: Sequence[TokenLogprobs] = ()
    ) -> SessionProgress:
        """Takes what the rule chose in a pass over `scheduled`, nothing without a verify input."""
        if scheduled.epoch != self.epoch:
            return self._complete_overtaken(scheduled)
        self.processed += len(scheduled.chain)
        if scheduled.verify_input is None:
            return SessionProgress(True, (), ())
        start = self.tree.frontier
        kept, reason = cut(self.tree.tokens, self.prompt_length, tokens, self.settings.stop, self.room, self._terms)
        # Not the path in the tree: its nodes are gone if the client resumed on a new stream during the pass.
        path = scheduled.path(tokens[:kept])
        # The last token is computed again even if a node carried it: a root needs logits, and its K/V may be unusable.
        nodes_kept = path[: len(tokens) - 1]
        self.tree.commit(tokens[:kept])
        self.processed += len(nodes_kept)
        self._root_committed_at = now
        self._response_time.committed(self.tree.frontier, now)
        self.acceptance.committed(kept, now)
        if scheduled.nodes and reason is None:
            end = path[-1] + 1 if path else 0
            self.acceptance.nodes_judged(len(path), missed=end in scheduled.verify_input.parents)
        commit = Commit(self.turn, start, tuple(tokens[:kept]), self.tree.last_id, tuple(logprobs[:kept]))
        self._unacknowledged.append(commit)
        replies = (commit,) if reason is None else (commit, self._finish(reason))
        return SessionProgress(True, nodes_kept, replies, len(path))

    # Server drafting.

    def server_draft_view(self, in_pass: bool) -> TreeView | None:
        """The view that the server should draft from now, None where it should not; proposals go to `add_server_draft`.
        `in_pass`: whether the session takes part in a running pass."""
        if not self.may_server_draft or (in_pass and not self.idle_policy.overlaps):
            return None
        return self.tree.view().drafted_for(self.settings, self.prompt_length, self._constraint)

    def add_server_draft(self, epoch: int, view: TreeView, proposals: Sequence[Proposal]) -> None:
        """Adds proposals that were drafted from `view` in `epoch`; void where the sequence was replaced since."""
        if epoch != self.epoch:
            return
        drafted_at = len(view.tokens)
        most = max(0, self._terms.max_server_drafted_nodes - len(self.tree))
        fresh = self.tree.add_server_drafted(drafted_at, proposals[:most])
        if not fresh and drafted_at == self.tree.frontier:
            self._resting_at = self.tree.frontier

    def stop_server_drafting(self) -> None:
        """Ends server drafting for this session, because it failed."""
        self._server_can_draft = False

    @property
    def wants_server_drafting(self) -> bool:
        """Whether this answer wants server drafting, now or once the prompt is computed."""
        wanted = self._server_can_draft and self.idle_policy.server_drafts and not self.tree.grouped
        wanted = wanted and not self.settings.wants_state_alone
        if not wanted or self.state is ServerState.FINISHED or self.stalled:
            return False
        return self._resting_at != self.tree.frontier and len(self.tree) < self._terms.max_server_drafted_nodes

    @property
    def may_server_draft(self) -> bool:
        """Whether server drafting is of use now, at least outside a pass."""
        is_decoding = self.tree.frontier - self.processed == 1
        enough = self._pass_timings.has_levels(self.idle_policy.min_levels)
        return is_decoding and enough and not self.lacks_drafter and self.wants_server_drafting

    # Draft state. It is exported between `next_span` and `state_frame`, while everything else may go on.

    def next_span(self) -> Span | None:
        """Claims the next span of draft state to send; None where nothing is left or the client's window is full.
        Nothing is sent between answers, when the client does not read, nor before the commit that a prompt's last pass
        makes: state in flight would delay it, by a round trip if a packet is lost. A claim must go to `state_frame`.
        """
        has_begun = self.settings.wants_state_alone or self.prompt_length < self.tree.frontier == self.processed + 1
        if self.feed is None or self.state is ServerState.FINISHED or not has_begun:
            return None
        return self.feed.next(self.processed)

    def state_frame(self, span: Span, payload: bytes, now: float) -> State | None:
        """The frame of a claimed span, to be sent at once; None where the span has become void."""
        if self.feed is None or not self.feed.sent(span, len(payload), now):
            return None
        shape = (span.count, *span.kind.shape)
        return State(self.turn, span.start, span.count, span.kind.name, self.feed.dtype, shape, payload)

    def forgo_state(self) -> Replies:
        """The server cannot make the draft state; a turn that only wants state ends."""
        self._can_feed = False
        return self._end_if_fed()

    # Details.

    def _new_feed(self, wanted: StateRequest | None) -> StateFeed | None:
        """None where no draft state is wanted; `check_open` has refused what cannot be had."""
        feed = None if wanted is None else feed_for(wanted, self._terms.state_kinds(wanted))
        self._state_request, self._can_feed = wanted, feed is not None
        return feed

    def _complete_overtaken(self, scheduled: ScheduledTokens) -> SessionProgress:
        """The result of a pass of an earlier epoch: its chain is kept where the sequence still contains it. A running
        answer needs the logits of its root, so there the chain must end before the root."""
        end = scheduled.start + len(scheduled.chain)
        last = self.tree.frontier if self.state is ServerState.FINISHED else self.tree.frontier - 1
        if self.processed != scheduled.start or end > last or not self.tree.holds(scheduled.start, scheduled.chain):
            return SessionProgress(False, (), ())
        self.processed = end
        return SessionProgress(True, (), ())

    def _begin_turn(self, turn: int, prompt_length: int, settings: Settings, keep: int, now: float) -> None:
        # Of the sequence before; a root is computed again for its logits.
        self.kept = min(keep, self.tree.frontier - settings.wants_choice)
        self.processed = min(self.processed, self.kept)
        self.turn = turn
        self.prompt_length = prompt_length
        self.settings = settings
        self._constraint = self._terms.constrain(settings.constraint)
        self.tree.grouped = RULES[settings.rule].grouped
        self.idle_policy = IDLE_POLICIES[settings.idle or self._terms.idle]
        self.limit = min(self._terms.context, prompt_length + settings.max_new_tokens)  # of tokens in the sequence
        self.acked = self.prefill_length = self.tree.frontier  # tokens that came with the request
        self.answered_at = 0  # the frontier of the client's last Grow
        self.exhausted_at = 0  # and of its last empty one
        self._resting_at = 0  # the frontier at which the server drafter had no proposal
        self._root_committed_at = now
        self.finished: Finished | None = None
        self._unacknowledged: list[Commit] = []
        self._response_time.restart()
        self.acceptance.answer_began()

    def _end_if_over(self) -> Replies:
        """Ends a rebuilt session that holds a whole answer already."""
        begin, answer = self.prompt_length, self.tree.tokens[self.prompt_length :]
        if not answer:
            return self._end_if_fed()
        _, reason = cut(self.tree.tokens[:begin], begin, answer, self.settings.stop, self.limit - begin, self._terms)
        return () if reason is None else (self._finish(reason),)

    def _end_if_fed(self) -> Replies:
        """Ends a turn that only wants draft state once the client has all of it."""
        if not self.settings.wants_state_alone or self.state is ServerState.FINISHED:
            return ()
        feed = self.feed if self._can_feed else None
        is_fed = feed is None or feed.has_delivered(self.tree.frontier)
        return (self._finish(FinishReason.LENGTH),) if is_fed else ()

    def _replay(self) -> Replies:
        commits = commits_to_repeat(self._unacknowledged, self.turn, self.acked, self.tree.tokens)
        return commits if self.finished is None else (*commits, self.finished)

    def _finish(self, reason: FinishReason) -> Finished:
        self.state = server_after(self.state, Finished)
        self.epoch += 1
        self.finished = Finished(self.turn, self.tree.frontier, reason)
        return self.finished

    def _acknowledge(self, frontier: int, now: float) -> None:
        if frontier > self.acked:
            self.acked = frontier
            self.tree.forget(frontier)
            self._unacknowledged = still_unacknowledged(self._unacknowledged, frontier)
        self._response_time.acknowledged(frontier, now)

    def _is_stale(self, turn: int) -> bool:
        if turn > self.turn:
            raise PeerError(f"a frame of turn {turn} came before the Extend that begins it")
        return turn < self.turn


_HANDLERS: dict[type, Callable[..., Replies]] = {
    Grow: ServerSession._receive_grow,
    Ack: ServerSession._receive_ack,
    Cancel: ServerSession._receive_cancel,
    Extend: ServerSession._receive_extend,
    StateAck: ServerSession._receive_state_ack,
    Ping: lambda session, ping, now: (Pong(ping.number),),
}
