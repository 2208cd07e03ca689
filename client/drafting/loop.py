"""The drafting loop's decisions: draft now, send what, or wait. Pure: no clock, no task, no link, no torch.

A shell in real or virtual time asks `begin_step` for something to draft, has the drafter draft it, hands the
result to `drafted`, and hands every arriving frame to `received`. Whatever these return is to be sent at once, in
order. Drafting never waits for an answer: a step is drafted from a picture of the tree, and what arrives
meanwhile only decides what the result is still good for.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from client.drafting.policies import LOCKSTEP, Policy
from client.drafting.provisional import likeliest_run
from client.drafting.repetition import STOPPED, repeats_itself
from common.drafters.best_first import Expansion
from common.protocol.client_session import ClientSession
from common.protocol.messages import Ack, FromClient, FromServer, Grow, Settings, State
from common.protocol.prefix import common_prefix
from common.protocol.transitions import ClientState
from common.protocol.views import Proposal, TreeView

_ANSWERING = (ClientState.OPENING, ClientState.GENERATING, ClientState.LOST)

ONE_TOKEN = Expansion(breadth=1, children=8, nodes=1, least_probability=1e-30)
"""Bounds of a level that is written alone."""

_MOST_STATE_BYTES = 512 << 20
"""Of draft state that waits for the drafter. What comes beyond is lost, as drafters are used to from bad links."""

_STATE_FRAME_BYTES = 512  # that a frame needs beside its payload

_UNTOLD_AT_MOST = 16
"""Tokens that a step in progress may leave unacknowledged, far fewer than a server runs ahead. Not every commit is
acknowledged at once, because the server measures from a commit to the first Grow that knows it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One level to draft, from the tree as it was when the step began, and the draft state that has come since the
    last one. What a `warm_up` proposes is not sent. `new_nodes` of the view came since the last step, or are to be
    computed again with that state. `expansion` bounds the level where its caller's own bounds do not; the root that is
    proposed below is node `root`, 0 for the tree's own."""

    turn: int
    view: TreeView
    warm_up: bool = False
    states: tuple[State, ...] = ()
    new_nodes: int = 0
    expansion: Expansion | None = None
    root: int = 0


class DraftingLoop:
    def __init__(self, session: ClientSession, policy: Policy, has_drafter: bool, ends: Collection[int] = ()):
        """`ends` are the tokens behind which a run that is written alone does not go on."""
        self.session = session
        self._policy = policy
        self._has_drafter = has_drafter
        self._round_levels = policy.round_levels
        self._ends = frozenset(ends)
        self._stepping = False
        self._newest_drafted = 0  # node id that a step has seen
        self._states: list[State] = []  # that no step has carried yet
        self._state_bytes = 0  # of these
        self._carried: tuple[State, ...] = ()  # by the latest step
        self._held: Grow | None = None  # levels that leave together
        self._is_waited_for = False  # whether no pass runs before a round has come
        self._alone_limit: int | None = None  # tokens to write while nobody judges them; None while somebody does
        self._kept = 0  # of these, that were made final unjudged
        self._start_afresh(0)

    @property
    def answering(self) -> bool:
        return self.session.state in _ANSWERING

    @property
    def run(self) -> tuple[int, ...]:
        """What a person is offered behind the final tokens."""
        session = self.session
        return tuple(node.token for node in likeliest_run(session.tree, session.room, self._ends))

    def begin_turn(self, tokens: Sequence[int], settings: Settings) -> list[FromClient]:
        """Asks for the answer that follows `tokens`, of which the session may already hold a first part."""
        session = self.session
        opening: FromClient | None
        if session.state is ClientState.NEW:
            opening = session.open(tokens, settings)
        else:
            keep = common_prefix(session.tree.tokens, tokens)
            self._keep_states(keep)
            opening = session.extend(keep, tokens[keep:], settings)
        self._start_afresh(session.tree.frontier)
        self._is_waited_for = self._round_levels is not None and settings.idle == LOCKSTEP.idle
        if not self._policy.drafts or (self._has_drafter and self._round_levels is None):
            return [] if opening is None else [opening]
        # Rounds begin with the token that the prompt's own pass commits; the drafter reads the prompt meanwhile.
        self._warms_up = self._has_drafter
        return [*([] if opening is None else [opening]), *self._rest()]

    def offer(self, run: Sequence[int]) -> list[FromClient]:
        """Proposes what was written before for a turn that has just begun, so that all of it is judged in one go."""
        chain = [Proposal(-index, token, logp=0.0) for index, token in enumerate(run)]
        grow = self.session.propose(self.session.tree.frontier, chain) if chain else None
        return [] if grow is None else [grow]

    def write_alone(self, limit: int) -> None:
        """Nobody judges what is drafted for now: go on with one run of at most `limit` tokens behind what is final."""
        if self._alone_limit is None:
            self._spent_below = -1
        self._alone_limit = limit

    def write_together(self) -> None:
        """What is drafted will be judged again."""
        self._alone_limit = None
        self._kept = 0
        self.note = ""

    def keep(self, count: int) -> tuple[int, ...]:
        """Makes the first `count` tokens of the run final, which nobody has judged, and returns them: all that there
        are while the link is lost, else none."""
        if self.session.state is not ClientState.LOST:
            return ()
        kept = self.run[:count]
        self.session.adopt(kept)
        self._kept += len(kept)
        return kept

    @property
    def is_whole(self) -> bool:
        """Whether nothing can follow the final tokens, as far as can be told without the server."""
        answer = self.session.answer
        return bool(answer) and (answer[-1] in self._ends or self.session.room == 0)

    def reopen(self) -> list[FromClient]:
        """Resumes the answer on a new stream. What waits to leave is in what this returns."""
        self._held = None
        self._levels = 0
        self._told = self.session.tree.frontier
        opening = self.session.reopen()
        # A tree that is sent again is this round's: what came behind it might be too late.
        is_a_round = self._round_levels is not None and any(isinstance(message, Grow) for message in opening)
        self._resting_at = self.session.tree.frontier if is_a_round else 0
        return opening

    def begin_step(self) -> Step | None:
        """What to draft now; None to wait until a frame arrives. Each step must be handed to `drafted`."""
        if self._stepping or not self.answering:
            return None
        if self._alone_limit is not None:
            return self._begin_alone(self._alone_limit - self._kept)
        if not self._has_something_to_draft:
            return None
        self._stepping = True
        warm_up, self._warms_up = self._warms_up, False
        self._carry_states()
        view = self.session.view()
        new = len(view.nodes) if self._carried else sum(node.id > self._newest_drafted for node in view.nodes)
        self._newest_drafted = self.session.tree.last_id
        return Step(self.session.turn, view, warm_up, self._carried, new)

    def _begin_alone(self, limit: int) -> Step | None:
        """The next token of the run, as if all before it were final: so any drafter goes on as it always does."""
        run = likeliest_run(self.session.tree, min(limit, self.session.room), self._ends)
        is_full = len(run) >= min(limit, self.session.room)
        leaf = run[-1].id if run else 0
        kept = self.session.answer[len(self.session.answer) - self._kept :]
        if leaf != self._spent_below and repeats_itself([*kept, *(node.token for node in run)]):
            self._spent_below, self.note = leaf, STOPPED
        if is_full or leaf == self._spent_below or not self._has_drafter or not self._policy.drafts:
            return None
        if self.is_whole or (run and run[-1].token in self._ends):
            return None
        self._stepping = True
        self._carry_states()
        view = self.session.view()
        tokens = (*view.tokens, *(node.token for node in run))
        alone = replace(view, tokens=tokens, nodes=(), alone=True, provisional=len(run))
        return Step(self.session.turn, alone, states=self._carried, expansion=ONE_TOKEN, root=leaf)

    def drafted(self, step: Step, proposals: Sequence[Proposal]) -> list[FromClient]:
        """Takes the drafter's result for `step`; what a later turn or commit has overtaken is dropped."""
        session = self.session
        if step.turn != session.turn:
            return []
        self._stepping = False
        if step.warm_up or not self.answering:
            return []
        if step.expansion is not None:
            return self._drafted_alone(step, proposals)
        self._told = session.tree.frontier
        drafted_at = len(step.view.tokens)
        grow = session.propose(drafted_at, proposals) if proposals else None
        if grow is not None:
            return self._hold(grow)
        return self._rest() if drafted_at == session.tree.frontier else self._acknowledge()

    def _drafted_alone(self, step: Step, proposals: Sequence[Proposal]) -> list[FromClient]:
        if not proposals:
            self._spent_below = step.root
            return []
        below = [replace(each, parent=each.parent or step.root) for each in proposals]
        newest = self.session.tree.last_id
        grow = self.session.propose(len(step.view.tokens) - step.view.provisional, below)
        if self.session.tree.last_id == newest:
            self._spent_below = step.root  # the tree is full
        # What waits to leave has smaller ids, and the run may hang from it.
        held, self._held = self._held, None
        return [message for message in (held, grow) if message is not None]

    def received(self, message: FromServer) -> tuple[tuple[int, ...], list[FromClient]]:
        """Takes a frame; returns the tokens that it made final, and what to send.

        Raises PeerError where the server breaks the protocol.
        """
        tokens = self.session.receive(message)
        if isinstance(message, State):
            return (), self._take_state(message)
        if tokens:
            self._levels = 0
        frontier = self.session.tree.frontier
        told_by_a_step = self._stepping or self._has_something_to_draft
        if told_by_a_step and frontier - self._told < _UNTOLD_AT_MOST:
            return tokens, []
        self._told = frontier
        return tokens, self._acknowledge() if told_by_a_step else self._answer_commit()

    def retire(self) -> list[FromClient]:
        """The drafter failed in mid-step: the answer goes on without it."""
        self._has_drafter = self._stepping = False
        self._states, self._carried = [], ()
        self.session.wanted_state = None
        return self._answer_commit()

    def cancel(self) -> list[FromClient]:
        """Stops the answer; the server confirms by Finished."""
        cancel = self.session.cancel() if self.answering else None
        return [] if cancel is None else [cancel]

    @property
    def _has_something_to_draft(self) -> bool:
        drafts = self._policy.drafts and self._has_drafter and self.answering and self.session.room > 0
        return drafts and (self._warms_up or self._resting_at != self.session.tree.frontier)

    def _carry_states(self) -> None:
        self._carried, self._states, self._state_bytes = tuple(self._states), [], 0

    def _take_state(self, state: State) -> list[FromClient]:
        # The server sends no more where nobody would use it, because its window stays full.
        if not self._has_drafter:
            return []
        size = _STATE_FRAME_BYTES + len(state.payload)
        if state.turn == self.session.turn and self._state_bytes + size <= _MOST_STATE_BYTES:
            self._states.append(state)
            self._state_bytes += size
            if self._round_levels is None:
                self._resting_at = 0  # a drafter that was spent may know better now
        acknowledgement = self.session.acknowledge_state()
        return [] if acknowledgement is None else [acknowledgement]

    @property
    def undrafted_states(self) -> tuple[State, ...]:
        """The draft state that no finished step has carried. A step that is still under way may never run, so that what
        it carries is among it; the server believes that we have it."""
        return (*self._carried, *self._states) if self._stepping else tuple(self._states)

    def _keep_states(self, keep: int) -> None:
        """History is rewritten from `keep` on."""
        kept = [state for state in self.undrafted_states if state.start < keep]
        self._states = [replace(state, count=min(state.count, keep - state.start)) for state in kept]
        self._state_bytes = sum(_STATE_FRAME_BYTES + len(state.payload) for state in self._states)

    def _start_afresh(self, told: int) -> None:
        self._stepping = False  # a step of the last turn may still run; its result will be dropped
        self._told = told  # the frontier that the server knows we know
        self._levels = 0
        self._held = None
        self._resting_at = 0
        self._kept = 0
        self._spent_below = -1  # the node below which a drafter that writes alone has nothing to say
        self.note = ""  # what a person should know of the run that is written alone
        self._warms_up = False

    def _hold(self, grow: Grow) -> list[FromClient]:
        """Adds a level to those that wait to leave in one Grow; returns what leaves now."""
        overtaken: list[FromClient] = []
        if self._held is None:
            self._held = grow
        elif self._held.frontier == grow.frontier:
            self._held = replace(grow, nodes=self._held.nodes + grow.nodes)
        else:
            overtaken, self._held = [self._held], grow
        self._levels += 1
        if self._round_levels is not None and self._levels >= self._round_levels:
            return [*overtaken, *self._rest()]
        if not self._leaves_now:
            return overtaken
        held, self._held = self._held, None
        return [*overtaken, held]

    @property
    def _leaves_now(self) -> bool:
        """Whether what is held leaves with the level that has just joined it.

        Groups that were drawn leave at once: what comes later depends on what was drawn, and whether a pass still finds
        a group must not. A server that waits for whole rounds finds every group.
        """
        if self.session.tree.grouped and not self._is_waited_for:
            return True
        if self._round_levels is not None:
            return False
        # Acknowledgements of what is sent early delay the first token.
        policy = self._policy
        together = policy.levels_together if self.session.passes else policy.first_levels_together
        return self._levels % together == 0

    def _answer_commit(self) -> list[FromClient]:
        return self._rest() if self._policy.drafts and self.answering else self._acknowledge()

    def _rest(self) -> list[FromClient]:
        """Nothing more is worth proposing at this frontier: send what is held, and say so; a round's end says it."""
        self._resting_at = self.session.tree.frontier
        held, self._held = self._held, None
        ends_a_round = held is not None and self._round_levels is not None
        last_words = None if ends_a_round else self.session.exhausted()
        return [message for message in (held, last_words) if message is not None]

    def _acknowledge(self) -> list[FromClient]:
        """What is held goes first: the server forgets what lies below an acknowledged frontier."""
        acknowledgement: Ack | None = self.session.acknowledge()
        if acknowledgement is None:
            return []
        held, self._held = self._held, None
        return [acknowledgement] if held is None else [held, acknowledgement]
