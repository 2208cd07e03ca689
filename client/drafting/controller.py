"""Adapts the bounds of the drafter's tree to the measured cost of drafting, the link and the speed of the target, so
that nobody has to tune them.

Pure: times are arguments, in seconds on any steady clock. May know bounds of trees, costs and speeds; it may not know
tokens, drafters or streams.

A level costs a fixed time and a little for each node; both are fitted to measured levels, because with a constant cost
trees would grow without limit. A node that the target commits with probability p saves p / speed seconds; it is worth
its place while that is more than what it costs: its share of the level, and, if the link queues what is sent, of the
link. All bounds move by bounded steps, so that one odd measurement does little.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from client.drafting.guess_controller import GuessController
from common.drafters.best_first import Expansion
from common.protocol.acceptance import AcceptanceEstimator

_FIRST = Expansion(breadth=8, children=8, nodes=128, least_probability=0.005)
_FORGETTING = 0.98  # of the fit, with each level
_LEVELS_BETWEEN_STEPS = 8
_STEP = 1.5  # the most that a bound changes by at once
_BREADTHS = (2, 16)
_NODES = (32, 320)  # what is written alone needs the others of a tree's 512
_PROBABILITIES = (0.001, 0.1)

_RECENT_TRIPS = 8
_QUEUE_S = 0.03  # queueing delay that may be jitter or a wait for a pass
_QUEUE_SHARE = 0.5  # of the minimum round trip, the same
_PRICE_UP, _PRICE_DOWN = 2.0, 1.25
_LEAST_PRICE, _MOST_PRICE = 5e-5, 4e-3  # beyond which the least probability is at its bound anyway
_MINIMUM_WINDOW_S = 10.0  # a minimum round trip is remembered for one or two of these, because paths change


class TreeController(Protocol):
    """Bounds the drafter's tree, and is told of every level, Grow and Commit."""

    expansion: Expansion

    def begin_turn(self) -> None: ...

    def drafted(self, nodes: int, added: range, seconds: float, is_one_draw: bool) -> None:
        """A level computed so many nodes in so many seconds, and added those of the ids `added`; one draw of siblings
        goes ahead by one token whatever is asked for. Not called for one that reads a prompt."""

    def sent(self, last_id: int, now: float) -> None:
        """A Grow left whose newest node is `last_id`."""

    def committed(self, tokens: int, carried: Sequence[int], seen: int, now: float) -> None:
        """A Commit of so many tokens came, of which nodes with the ids `carried` bore the first; the server had `seen`
        all nodes up to that id."""


class FixedTree:
    """The same bounds for every level."""

    def __init__(self, expansion: Expansion):
        self.expansion = expansion

    def begin_turn(self) -> None: ...

    def drafted(self, nodes: int, added: range, seconds: float, is_one_draw: bool) -> None: ...

    def sent(self, last_id: int, now: float) -> None: ...

    def committed(self, tokens: int, carried: Sequence[int], seen: int, now: float) -> None: ...


class Controller:
    def __init__(self) -> None:
        self.expansion = _FIRST
        self._levels = LevelCost()
        self._going_ahead = GuessController()
        self._uplink = Uplink()
        self._acceptance = AcceptanceEstimator()
        self._drafted = 0

    def begin_turn(self) -> None:
        """The time in which a person thinks counts neither as speed nor as a round trip."""
        self._acceptance.answer_began()
        self._uplink.forget_sent()

    def drafted(self, nodes: int, added: range, seconds: float, is_one_draw: bool) -> None:
        self._levels.observe(nodes, seconds)
        if not is_one_draw:
            self._going_ahead.drafted(added, seconds)
        self.expansion = replace(self.expansion, ahead=self._going_ahead.chosen)
        self._drafted += 1
        if self._drafted % _LEVELS_BETWEEN_STEPS == 0:
            self._step()

    def sent(self, last_id: int, now: float) -> None:
        self._uplink.sent(last_id, now)

    def committed(self, tokens: int, carried: Sequence[int], seen: int, now: float) -> None:
        self._uplink.heard(seen, now)
        self._going_ahead.committed(carried)
        self._acceptance.committed(tokens, now)

    def _step(self) -> None:
        # Until a speed is known, every node is worth its place.
        speed = self._acceptance.tokens_per_s if math.isfinite(self._acceptance.tokens_per_s) else 0.0
        fixed, per_node = self._levels.fixed, self._levels.per_node
        worth = speed * (per_node + self._uplink.price)
        breadth = fixed / per_node if per_node > 0 else math.inf  # at most doubles what a level costs
        in_flight = (self._uplink.round_trip + fixed) / max(fixed, 1e-4)  # levels between a node and its answer
        now = self.expansion
        least = _towards(now.least_probability, worth, _PROBABILITIES)
        wide = round(_towards(now.breadth, breadth, _BREADTHS))
        self.expansion = replace(
            now,
            breadth=wide,
            nodes=round(_towards(now.nodes, wide * max(in_flight, 16.0), _NODES)),
            least_probability=least,
        )


class LevelCost:
    """The time of a level, fixed + per_node * nodes, by least squares over the last levels; neither is below 0."""

    def __init__(self) -> None:
        self._weight = self._nodes = self._time = self._nodes2 = self._nodes_time = 0.0

    def observe(self, nodes: int, seconds: float) -> None:
        self._weight = _FORGETTING * self._weight + 1
        self._nodes = _FORGETTING * self._nodes + nodes
        self._time = _FORGETTING * self._time + seconds
        self._nodes2 = _FORGETTING * self._nodes2 + nodes * nodes
        self._nodes_time = _FORGETTING * self._nodes_time + nodes * seconds

    @property
    def per_node(self) -> float:
        spread = self._weight * self._nodes2 - self._nodes**2
        if spread <= 1e-6 * max(1.0, self._nodes2):
            return 0.0
        slope = (self._weight * self._nodes_time - self._nodes * self._time) / spread
        return min(max(0.0, slope), self._time / max(self._nodes, 1.0))

    @property
    def fixed(self) -> float:
        if not self._weight:
            return 0.0
        return max(0.0, (self._time - self.per_node * self._nodes) / self._weight)


@dataclass(frozen=True, slots=True)
class _Sent:
    last_id: int
    at: float


class Uplink:
    """Round trips from a Grow to the first Commit that knows it, and the price of queueing on the uplink.

    `price` is in seconds a node. It rises while even the shortest of the last round trips show a queue that neither
    jitter nor the wait for a pass explains, and falls otherwise: the bandwidth is found by delay, as in LEDBAT.
    """

    def __init__(self) -> None:
        self.price = _LEAST_PRICE
        self._leasts = (math.inf, math.inf)  # of this stretch of time and of the one before
        self._since = -math.inf
        self._sent: deque[_Sent] = deque()
        self._trips: deque[float] = deque(maxlen=_RECENT_TRIPS)

    @property
    def round_trip(self) -> float:
        return min(self._trips, default=0.0)

    @property
    def least(self) -> float:
        return min(self._leasts)

    def forget_sent(self) -> None:
        self._sent.clear()

    def sent(self, last_id: int, now: float) -> None:
        self._sent.append(_Sent(last_id, now))

    def heard(self, seen: int, now: float) -> None:
        newest: _Sent | None = None
        while self._sent and self._sent[0].last_id <= seen:
            newest = self._sent.popleft()
        if newest is None:
            return
        self._trips.append(now - newest.at)
        if now - self._since > _MINIMUM_WINDOW_S:
            self._leasts, self._since = (math.inf, self._leasts[0]), now
        self._leasts = (min(self._leasts[0], self._trips[-1]), self._leasts[1])
        if len(self._trips) == _RECENT_TRIPS:
            queues = self.round_trip - self.least > max(_QUEUE_S, _QUEUE_SHARE * self.least)
            price = self.price * _PRICE_UP if queues else self.price / _PRICE_DOWN
            self.price = min(max(price, _LEAST_PRICE), _MOST_PRICE)


def _towards(now: float, wanted: float, bounds: tuple[float, float]) -> float:
    """`wanted` within bounds, or as near to it as one step goes."""
    return min(max(wanted, now / _STEP, bounds[0]), now * _STEP, bounds[1])
