"""The drafting loop's decisions: draft now, send what, or wait. Pure: no clock, no task, no link, no torch.

A shell in real or virtual time asks `begin_step` for something to draft, has the drafter draft it, hands the result to
`drafted`, and hands every arriving frame to `received`. Whatever these return is to be sent at once, in order. Drafting
never waits for an answer: a step drafts from a snapshot of the tree, and what arrives meanwhile only decides what the
result is still good for.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from client.drafting.policies import LOCKSTEP, Policy
from client.drafting.provisional import likeliest_run, nodes_along, run_to_write_on
from client.drafting.repetition import STOPPED, repeats_itself
from client.drafting.waiting_states import WaitingStates
from common.drafters.best_first import Expansion
from common.protocol.client_session import ClientSession
from common.protocol.messages import FromClient, FromServer, Grow, Settings, State
from common.protocol.prefix import common_prefix
from common.protocol.transitions import ClientState
from common.protocol.views import Proposal, TreeView

_ANSWERING = (ClientState.OPENING, ClientState.GENERATING, ClientState.LOST)

ONE_TOKEN = Expansion(breadth=1, children=8, nodes=1, least_probability=1e-30)
"""Bounds of a level that is drafted offline."""

_MOST_UNACKNOWLEDGED_TOKENS = 16
"""Tokens that a step in progress may leave unacknowledged, far fewer than a server runs ahead. Not every commit is
acknowledged at once, because the server measures from a commit to the first Grow that knows it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One level to draft, from the tree as it was when the step began, and the draft state that has come since the last
    one. The proposals of a `warm_up` are not sent. `new_nodes` of the view came since the last step, or are to be
    computed again with that state. The last level of a round `fills` the tree. A step that is drafted offline has
    bounds of its own, `expansion`, and its proposals hang from the last token of its view. A step that `draws_once`
    draws one level of siblings, which leave at once."""

    turn: int
    view: TreeView
    warm_up: bool = False
    states: tuple[State, ...] = ()
    new_nodes: int = 0
    expansion: Expansion | None = None
    fills: bool = False
    draws_once: bool = False

    def bounds(self, usual: Expansion) -> Expansion:
        """Of the tree, where a level has the `usual` ones."""
        bounds = self.expansion or (usual.filling if self.fills else usual)
        return replace(bounds, draws_once=True) if self.draws_once else bounds


@dataclass(slots=True)
class _Round:
    """Levels that leave together, and whether this frontier needs no more of them. In lock-step, one round."""

    held: Grow | None = None
    levels: int = 0
    done_at: int = 0  # the frontier at which nothing more is worth proposing
    warms_up: bool = False  # whether the next step is a warm-up

    def take_held(self) -> list[FromClient]:
        held, self.held = self.held, None
        return [] if held is None else [held]


@dataclass(slots=True)
class _OfflineRun:
    """The run that the drafter writes while nobody verifies it."""

    limit: int | None = None  # tokens to draft; None while the link is good
    accepted: int = 0  # of these, that were made final unverified
    exhausted_below: int = -1  # the node below which the drafter proposes nothing more
    note: str = ""  # what a person should know of the run


class DraftingLoop:
    def __init__(self, session: ClientSession, policy: Policy, has_drafter: bool, ends: Collection[int] = ()):
        """`ends` are the tokens behind which an offline run does not go on."""
        self.session = session
        self._policy = policy
        self._has_drafter = has_drafter
        self._ends = frozenset(ends)
        self._stepping = False
        self._newest_drafted = 0  # node id that a step has seen
        self._states = WaitingStates()
        self._is_waited_for = False  # whether the server runs no pass before a round has come
        self._acknowledged = 0  # the frontier that the server knows we know
        self._round = _Round()
        self._offline = _OfflineRun()
        self._offered = 0  # tokens that were drafted before this turn
        self._written: tuple[int, ...] = ()  # alone, behind the final tokens, and not judged yet

    @property
    def answering(self) -> bool:
        return self.session.state in _ANSWERING

    @property
    def run(self) -> tuple[int, ...]:
        """What a person is offered behind the final tokens; a tree may reach beyond an answer's end."""
        if self.is_whole:
            return ()
        session = self.session
        return tuple(node.token for node in likeliest_run(session.tree, self._run_room, self._ends, self._written))

    @property
    def _run_room(self) -> int:
        """The longest run that may be offered."""
        offline, room = self._offline, self.session.room
        if offline.limit is None:
            return room
        return max(0, min(max(offline.limit, self._offered) - offline.accepted, room))

    @property
    def note(self) -> str:
        """What a person should know of an offline run."""
        return self._offline.note

    @property
    def is_whole(self) -> bool:
        """Whether nothing can follow the final tokens, as far as can be told without the server."""
        answer = self.session.answer
        return bool(answer) and (answer[-1] in self._ends or self.session.room == 0)

    @property
    def undrafted_states(self) -> tuple[State, ...]:
        """The draft state that no finished step has carried. A step that is still under way may never run, so its state
        is included; the server believes that we have it."""
        return self._states.undrafted(stepping=self._stepping)

    # What the caller asks for.

    def begin_turn(self, tokens: Sequence[int], settings: Settings) -> list[FromClient]:
        """Asks for the answer that follows `tokens`, of which the session may already hold a first part."""
        session = self.session
        opening: FromClient | None
        if session.state is ClientState.NEW:
            opening = session.open(tokens, settings)
        else:
            keep = common_prefix(session.tree.tokens, tokens)
            opening = session.extend(keep, tokens[keep:], settings)
            self._states.truncate(keep, stepping=self._stepping)
        self._stepping = False  # a step of the last turn may still run; its result will be dropped
        self._acknowledged = session.tree.frontier
        self._round = _Round()
        self._offline = _OfflineRun(self._offline.limit)
        self._written, self._offered = (), 0
        self._is_waited_for = self._policy.round_levels is not None and settings.idle == LOCKSTEP.idle
        if not self._policy.drafts or (self._has_drafter and self._policy.round_levels is None):
            return [] if opening is None else [opening]
        # Rounds begin with the token that the prompt's own pass commits; the drafter reads the prompt meanwhile.
        self._round.warms_up = self._has_drafter
        return [*([] if opening is None else [opening]), *self._end_round()]

    def offer(self, run: Sequence[int]) -> list[FromClient]:
        """Proposes what was drafted before for a turn that has just begun, so that all of it is verified in one go."""
        self._offered = len(run)
        chain = [Proposal(-index, token, logp=0.0) for index, token in enumerate(run)]
        grow = self.session.propose(self.session.tree.frontier, chain) if chain else None
        return [] if grow is None else [grow]

    def go_offline(self, limit: int) -> None:
        """From now on drafts one run of at most `limit` tokens behind the final ones, which nobody verifies for now."""
        if self._offline.limit is None:
            self._offline.exhausted_below = -1
        self._offline.limit = limit

    def go_online(self) -> None:
        """From now on what is drafted will be verified."""
        self._offline = _OfflineRun()

    def accept_unverified(self, count: int) -> tuple[int, ...]:
        """Makes the first `count` tokens of the run final without verification, and returns them: while the link is
        lost those that are not to be drafted again, else none."""
        session = self.session
        if session.state is not ClientState.LOST or self.is_whole:
            return ()
        run = run_to_write_on(session.tree, self._run_room, self._ends, self._written)
        accepted = tuple(node.token for node in run[:count])
        self.session.accept_unverified(accepted)
        self._written = self._written[len(accepted) :]
        self._offline.accepted += len(accepted)
        return accepted

    def reopen(self) -> list[FromClient]:
        """Resumes the answer on a new stream. What was held is included in what this returns."""
        self._round.held = None
        self._round.levels = 0
        self._acknowledged = self.session.tree.frontier
        opening = self.session.reopen()
        # A tree that is sent again is this round's: what came behind it might be too late.
        is_a_round = self._policy.round_levels is not None and any(isinstance(message, Grow) for message in opening)
        self._round.done_at = self.session.tree.frontier if is_a_round else 0
        return opening

    def retire(self) -> list[FromClient]:
        """The drafter failed in mid-step: the answer goes on without it."""
        self._has_drafter = self._stepping = False
        self._states.clear()
        self.session.wanted_state = None
        return self._answer_commit()

    def cancel(self) -> list[FromClient]:
        """Stops the answer; the server confirms by Finished."""
        cancel = self.session.cancel() if self.answering else None
        return [] if cancel is None else [cancel]

    # Steps.

    def begin_step(self) -> Step | None:
        """What to draft now; None to wait until a frame arrives. Each step must be handed to `drafted`."""
        if self._stepping or not self.answering:
            return None
        step = self._online_step() if self._offline.limit is None else self._offline_step()
        self._stepping = step is not None
        return step

    def drafted(self, step: Step, proposals: Sequence[Proposal]) -> list[FromClient]:
        """Takes the drafter's result for `step`; what a later turn or commit has overtaken is dropped."""
        if step.turn != self.session.turn:
            return []
        self._stepping = False
        if step.warm_up or not self.answering:
            return []
        return (
            self._drafted_online(step, proposals) if step.expansion is None else self._drafted_offline(step, proposals)
        )

    def _online_step(self) -> Step | None:
        if not self._has_something_to_draft:
            return None
        warm_up, self._round.warms_up = self._round.warms_up, False
        states = self._states.carry()
        view = self.session.view()
        new = len(view.nodes) if states else sum(node.id > self._newest_drafted for node in view.nodes)
        self._newest_drafted = self.session.tree.last_id
        fills = self._policy.round_levels is not None and self._round.levels + 1 == self._policy.round_levels
        return Step(self.session.turn, view, warm_up, states, new, fills=fills, draws_once=self._draws_leave_at_once)

    def _drafted_online(self, step: Step, proposals: Sequence[Proposal]) -> list[FromClient]:
        session = self.session
        self._acknowledged = session.tree.frontier
        drafted_at = len(step.view.tokens)
        grow = session.propose(drafted_at, proposals) if proposals else None
        if grow is not None:
            return self._hold(grow)
        return self._end_round() if drafted_at == session.tree.frontier else self._acknowledge()

    def _offline_step(self) -> Step | None:
        """The next token of the run, as if all before it were final, so that any drafter goes on as it always does. The
        unlikely end of a tree is drafted again, one token a step, while it is shown."""
        session, offline = self.session, self._offline
        room = self._run_room
        run = run_to_write_on(session.tree, room, self._ends, self._written)
        leaf = run[-1].id if run else 0
        accepted = session.answer[len(session.answer) - offline.accepted :]
        if leaf != offline.exhausted_below and repeats_itself([*accepted, *(node.token for node in run)]):
            offline.exhausted_below, offline.note = leaf, STOPPED
        if len(run) >= room or leaf == offline.exhausted_below or not self._has_drafter or not self._policy.drafts:
            return None
        if self.is_whole or (run and run[-1].token in self._ends):
            return None
        view = session.view()
        tokens = (*view.tokens, *(node.token for node in run))
        unseen = offline.accepted + len(run)  # also what was made final is no choice of the target's
        unverified = replace(view, tokens=tokens, nodes=(), alone=True, provisional=unseen)
        return Step(session.turn, unverified, states=self._states.carry(), expansion=ONE_TOKEN)

    def _drafted_offline(self, step: Step, proposals: Sequence[Proposal]) -> list[FromClient]:
        tree, tokens = self.session.tree, step.view.tokens
        drafted_at = len(tokens) - step.view.provisional
        grow: Grow | None = None
        if tokens[drafted_at : tree.frontier] == tuple(tree.tokens[drafted_at:]):
            grow = self._write(tokens[tree.frontier :], proposals)
        # What is held has smaller ids, and the run may hang from it.
        return [*self._round.take_held(), *([] if grow is None else [grow])]

    def _write(self, before: tuple[int, ...], proposals: Sequence[Proposal]) -> Grow | None:
        """Takes what was drafted behind the run `before`, or all that is shown where nothing more comes."""
        tree = self.session.tree
        along = nodes_along(tree, before)
        leaf = along[-1].id if along else 0  # the tree may have been sent again meanwhile, under new ids
        below = [replace(each, parent=each.parent or leaf) for each in proposals]
        grow = self.session.propose(tree.frontier, below) if below else None
        written = (*before, *(each.token for each in proposals[:1]))
        if proposals and len(nodes_along(tree, written)) == len(written):
            self._written = written
        elif len(self.run) > len(before):
            self._written = self.run
        else:
            self._offline.exhausted_below = leaf
        return grow

    # Frames.

    def received(self, message: FromServer) -> tuple[tuple[int, ...], list[FromClient]]:
        """Takes a frame; returns the tokens that it made final, and what to send.

        Raises PeerError where the server breaks the protocol.
        """
        tokens = self.session.receive(message)
        if isinstance(message, State):
            return (), self._take_state(message)
        if tokens:
            self._round.levels = 0
            is_confirmed = self._written[: len(tokens)] == tokens
            self._written = self._written[len(tokens) :] if is_confirmed else ()
        frontier = self.session.tree.frontier
        step_acknowledges = self._stepping or self._has_something_to_draft
        if step_acknowledges and frontier - self._acknowledged < _MOST_UNACKNOWLEDGED_TOKENS:
            return tokens, []
        self._acknowledged = frontier
        return tokens, self._acknowledge() if step_acknowledges else self._answer_commit()

    def _take_state(self, state: State) -> list[FromClient]:
        # The server sends no more where nobody would use it, because its window stays full.
        if not self._has_drafter:
            return []
        if state.turn == self.session.turn and self._states.add(state) and self._policy.round_levels is None:
            self._round.done_at = 0  # an exhausted drafter may propose more now
        acknowledgement = self.session.acknowledge_state()
        return [] if acknowledgement is None else [acknowledgement]

    # What leaves, and when.

    @property
    def _has_something_to_draft(self) -> bool:
        drafts = self._policy.drafts and self._has_drafter and self.answering and self.session.room > 0
        return drafts and (self._round.warms_up or self._round.done_at != self.session.tree.frontier)

    def _hold(self, grow: Grow) -> list[FromClient]:
        """Adds a level to those that are held to leave in one Grow; returns what leaves now."""
        round_ = self._round
        overtaken: list[FromClient] = []
        if round_.held is None:
            round_.held = grow
        elif round_.held.frontier == grow.frontier:
            round_.held = replace(grow, nodes=round_.held.nodes + grow.nodes)
        else:
            overtaken, round_.held = [round_.held], grow
        round_.levels += 1
        if self._policy.round_levels is not None and round_.levels >= self._policy.round_levels:
            return [*overtaken, *self._end_round()]
        return [*overtaken, *round_.take_held()] if self._leaves_now else overtaken

    @property
    def _draws_leave_at_once(self) -> bool:
        """Groups that were drawn leave at once: what comes later depends on what was drawn, and whether a pass still
        finds a group must not. A server that waits for whole rounds finds every group."""
        return self.session.tree.grouped and not self._is_waited_for

    @property
    def _leaves_now(self) -> bool:
        """Whether what is held leaves with the level that has just joined it."""
        if self._draws_leave_at_once:
            return True
        if self._policy.round_levels is not None:
            return False
        # Acknowledgements of what is sent early delay the first token.
        policy = self._policy
        together = policy.levels_together if self.session.passes else policy.first_levels_together
        return self._round.levels % together == 0

    def _answer_commit(self) -> list[FromClient]:
        return self._end_round() if self._policy.drafts and self.answering else self._acknowledge()

    def _end_round(self) -> list[FromClient]:
        """Nothing more is worth proposing at this frontier: sends what is held, and says so; a round's last level needs
        no such word."""
        self._round.done_at = self.session.tree.frontier
        held = self._round.take_held()
        exhausted = None if held and self._policy.round_levels is not None else self.session.exhausted()
        return held if exhausted is None else [*held, exhausted]

    def _acknowledge(self) -> list[FromClient]:
        """What is held goes first: the server forgets what lies below an acknowledged frontier."""
        acknowledgement = self.session.acknowledge()
        return [] if acknowledgement is None else [*self._round.take_held(), acknowledgement]
